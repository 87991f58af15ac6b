//! Colours: of Okabe and Ito ("Color Universal Design", 2008) for work, of Paul Tol's "light" scheme (SRON/EPS/TN/09-002)
//! for memory. People who see fewer colours can distinguish the colours of both.

use crate::instruction::Activity;
use crate::simulate::MemoryCategory;

/// The style sheet of a picture.
pub(super) const STYLE: &str = "\
text{font-family:sans-serif;font-size:11px;fill:#222}\
.heading{font-size:16px;font-weight:bold}\
.note,.row{font-size:9px;fill:#555}\
.time{text-anchor:middle;font-size:10px;fill:#555}\
.tick{stroke:#ccc;stroke-width:1;fill:none}\
.label,.light{text-anchor:middle;font-size:10px;pointer-events:none}\
.light{fill:#fff}\
.paper{fill:#fff}\
.idle{fill:#f2f2f2}\
.forward{fill:#56b4e9}\
.backward{fill:#e69f00}\
.input{fill:#cc79a7}\
.weight{fill:#009e73}\
.recompute{fill:#0072b2}\
.gather{fill:#f0e442}\
.reduce{fill:#d55e00}\
.transfer{fill:#888}\
.optimizer{fill:#000}\
.meeting{fill:#ccc}\
.bookkeeping{fill:#eee}\
.parameters{fill:#77aadd}\
.state{fill:#ee8866}\
.gradients{fill:#eedd88}\
.gathered{fill:#44bb99}\
.activations{fill:#ffaabb}\
.communication{fill:#aaaaaa}\
.checkpoint{fill:#99ddff}";

/// The class of a kind of work: its name, or a word of it.
pub(super) fn class(activity: Activity) -> &'static str {
    match activity {
        Activity::BackwardInput => "input",
        Activity::BackwardWeight => "weight",
        Activity::Synchronization => "meeting",
        other => other.name(),
    }
}

/// The class of text on a bar: light on dark.
pub(super) fn label_class(activity: Activity) -> &'static str {
    match activity {
        Activity::Recompute | Activity::BackwardWeight | Activity::Optimizer => "light",
        _ => "label",
    }
}

/// The class of a category of memory: its name, where that is not the class of a kind of work.
pub(super) fn memory_class(category: MemoryCategory) -> &'static str {
    match category {
        MemoryCategory::Optimizer => "state",
        other => other.name(),
    }
}
