//! The output that a page shows for a command, which tests compare with its real output.

use std::path::Path;

use pipezero_config::{HostGpu, Resources, RunFile};
use pipezero_plan::Plan;

/// Columns that the pages give to output.
pub(super) const WIDTH: usize = 120;

/// The pages that show output of `plan` and `show`.
const PAGES: [&str; 2] = ["README.md", "docs/schedules.md"];

/// The plan of the run file of `command`, with its overrides, and the output that the pages show for it, once.
pub(super) fn example(command: &str) -> (Plan, String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |page: &str| std::fs::read_to_string(root.join(page)).expect("the page exists");
    let pages: String = PAGES.map(read).concat();
    let (_, below) = pages.split_once(&format!("$ {command}\n")).expect("a page shows the command");
    let (excerpt, _) = below.split_once("```").expect("the block ends");
    let path = command.split(' ').find(|word| word.ends_with(".json")).expect("the command names a run file");
    let set: Vec<String> = command.split(" --set ").skip(1).map(str::to_owned).collect();
    let file = RunFile::load(&root.join(path)).and_then(|file| file.set(&set));
    let file = file.expect("the example is well-formed");
    let (run, _) = file
        .resolve(Resources { cores: 2, memory_bytes: None, gpu: HostGpu::Absent, ranks: None, part: None })
        .expect("the example is valid");
    (Plan::new(run).expect("the example can be planned"), excerpt.to_owned())
}
