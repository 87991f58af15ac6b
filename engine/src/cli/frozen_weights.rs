//! That frozen parameters keep the weights that they begin with, which are random unless the run is given others.

use crate::config::{Notice, NoticeKind, RunFile};
use crate::plan::Plan;

/// What is said of a run with frozen parameters whose values are drawn, or would be if `train` is given none.
pub(super) fn drawn_frozen_weights(plan: &Plan, file: &RunFile, kind: NoticeKind) -> Option<Notice> {
    let num_frozen = plan.num_frozen_parameters();
    let text = match kind {
        NoticeKind::Warning => format!(
            "{num_frozen} frozen parameters keep the random values that they are drawn with, since nothing says with which weights the run \
             begins: name those of a trained model, `--init DIR`"
        ),
        NoticeKind::Hint | NoticeKind::Auto => format!(
            "{num_frozen} frozen parameters keep the values that they begin with: random ones, unless `train --init DIR` reads those of a \
             trained model"
        ),
    };
    (num_frozen > 0).then(|| Notice::new(kind, &file.place(&["train_only"]), text))
}
