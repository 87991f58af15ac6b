//! Gradients of parameters of which some may be frozen: what nothing trains is not computed.

use super::Queue;
use crate::kernels::linear::LinearShape;
use crate::memory::View;
use crate::views::GradientView;

impl dyn Queue + '_ {
    /// [`Queue::linear_backward_weight`] into the gradient of a weight; nothing where it is not trained.
    pub fn linear_gradient(
        &self,
        shape: LinearShape,
        dy: View<'_>,
        x: View<'_>,
        dweight: Option<GradientView<'_>>,
    ) {
        if let Some(GradientView { to, mode }) = dweight {
            self.linear_backward_weight(shape, dy, x, to, mode);
        }
    }

    /// [`Queue::bias_backward`] into the gradient of a bias; nothing where there is no bias, or it is not trained.
    pub fn bias_gradient(&self, dy: View<'_>, dbias: Option<GradientView<'_>>) {
        if let Some(GradientView { to, mode }) = dbias {
            self.bias_backward(dy, to, mode);
        }
    }
}
