//! Parameters that not every Llama has.

use crate::parameter::ParameterSpec;

/// The parameters of a layer without those of no elements, which its model does not have.
pub(super) fn those_there<const K: usize>(specs: [ParameterSpec; K], lens: [usize; K]) -> Vec<ParameterSpec> {
    specs.into_iter().zip(lens).filter(|&(_, len)| len > 0).map(|(spec, _)| spec).collect()
}
