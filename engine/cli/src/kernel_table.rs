//! `pipezero profile --kernels`: the time of each kernel of a step.

use std::path::Path;

use pipezero_files::input::read_text;
use pipezero_measure::profile::KernelStep;
use pipezero_models::queue::KernelTime;

use super::figures::{counted, nanoseconds, percent};
use super::out_file::Written;
use super::table::Table;
use super::terminal;

const HEADER: &str = "kernel,size,calls,ns";
/// Bytes of a table that is read to see whether it is one, at most.
const BYTES_MAX: u64 = 16 << 20;

/// The kind of file that is written.
pub(super) const KERNELS_FILE: Written = Written {
    name: "table of kernels",
    writer: "profile",
    example: "kernels.csv",
    is_such: |path: &Path| read_text(path, BYTES_MAX).is_ok_and(|text| text.starts_with(HEADER)),
};

/// A line for each kernel and size, in the order of their first calls.
pub(super) fn csv(step: &KernelStep) -> String {
    let line = |KernelTime { kernel, size, num_calls, ns }: &KernelTime| {
        format!("{kernel},\"{size}\",{num_calls},{ns}\n")
    };
    format!("{HEADER}\n{}", step.kernels.iter().map(line).collect::<String>())
}

/// The same, those that take most time first.
pub(super) fn table(step: &KernelStep) -> String {
    let of_all: u64 = step.kernels.iter().map(|kernel| kernel.ns).sum();
    let mut sorted: Vec<&KernelTime> = step.kernels.iter().collect();
    sorted.sort_by_key(|kernel| std::cmp::Reverse(kernel.ns));
    let mut table = Table::new(["kernel", "size", "calls", "each", "in all", "share"]);
    for KernelTime { kernel, size, num_calls, ns } in sorted {
        let share = percent(*ns as f64 / of_all.max(1) as f64);
        let times = [nanoseconds(ns / num_calls.max(&1)), nanoseconds(*ns)];
        table.row(kernel, [size.clone(), num_calls.to_string()].into_iter().chain(times).chain([share]));
    }
    let devices = counted(step.num_devices, "GPU");
    format!(
        "{table:width$}\nkernels of one step on {devices}: {} in all; the step took {:.1} ms, with the time that measuring takes\n",
        nanoseconds(of_all),
        1e3 * step.step_s,
        width = terminal::width()
    )
}
