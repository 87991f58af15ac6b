//! The `pipezero` binary, end to end: tiny runs in temporary folders, and its errors.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is how a test fails")]

mod bar; // The progress bar on a terminal.
mod bounds; // Questions that would take too long.
mod checkpoint; // `checkpoint`.
mod command; // Starts the binary and keeps what it printed.
mod compare; // `train --trace`, then `compare`.
mod damaged; // Damaged run directories.
mod data; // Data that does not go with the run.
mod distill; // Distillation in master files.
mod distill_errors; // Mistakes in it.
mod distill_processes; // Distillation in the processes of a job.
mod doctor; // `doctor`.
#[cfg(feature = "mpi")]
mod doctor_mpi; // `doctor` under `mpirun`.
#[cfg(feature = "mpi")]
mod early_ends; // Jobs that a signal ends while they start.
mod exploding; // Files made to take time or memory without end.
mod exploding_files; // Their table.
mod exploding_tokenizers; // Tokenizers and templates among them.
mod exports; // Folders that transformers wrote, exported again.
mod extends; // Run files that extend others.
mod failing_disk; // A disk that fails once, at every write.
mod fix; // `check --fix`.
mod folders; // Folders of transformers.
mod full_disk; // A disk without space.
mod in_threads; // Many cases by several threads.
mod initial_weights; // Weights that a run file names to begin with.
mod input; // Files that never end, and exit statuses.
mod json; // Training data in JSON, and conversations.
mod killed_anywhere; // A kill before every change of a run directory.
mod launchers; // Variables of launchers.
#[cfg(target_os = "linux")]
mod limits; // Limits of the system.
mod memory; // Runs that do not fit.
mod memory_group; // A run in a control group.
#[cfg(feature = "mpi")]
mod mpi; // `launch`.
mod nccl; // Ranks that are processes with a GPU each.
mod neighbours; // Links, pipes and files of others in the place of every file.
mod not_finite; // Values with which no run can begin.
mod parameters; // What becomes of parameters.
mod planning; // `check`, `plan` and `show`.
#[cfg(target_os = "linux")]
mod power_cut; // A power cut before every change of a run directory.
mod precision; // fp16 and bf16.
mod processes; // Processes that a command starts.
mod profile; // `profile`.
mod recomputation;
mod residency; // Units that stay gathered.
mod resume; // `train --resume`.
mod resume_changes; // What it says of a run that is not as it was.
mod resume_command; // `resume`.
mod resume_contents; // And of files whose contents are others.
#[cfg(feature = "mpi")]
mod resume_mpi; // And in the processes of a job.
#[cfg(feature = "mpi")]
mod same_inputs_mpi; // Processes that see different files.
#[allow(unreachable_pub, reason = "a file of a library of tests")]
#[path = "../../../tests/harness/sample.rs"]
mod sample; // Which cases of a long list are run.
mod schedules; // Several stages per rank, and schedule files.
mod several; // Master files: several engines.
mod several_arguments; // Arguments about them.
mod several_errors; // Mistakes in them.
mod several_processes; // Their ranks in the processes of a job.
mod several_ranks; // Engines on ranks of their own.
mod several_ranks_errors; // Ranks that cannot be.
mod shell; // Completions, man pages, stdin.
mod signals; // Signals, and kills.
mod simulate; // `simulate --schedule`.
mod simulate_out; // `simulate --out`.
mod simulate_run; // `simulate RUN.json`.
mod simulate_schedule; // `simulate --schedule` drawn, explained, and from a file.
mod simulate_what_if; // Ranks that differ, and share links and cores.
mod stand_ins; // What others can put in the place of a file.
mod text; // Mistakes in the run file and in the text.
mod tokens; // `tokenize`, and runs on its tokens.
mod traced_files; // The files that a command names to the system.
mod training; // `train`, then `eval` and `generate`.
#[cfg(feature = "mpi")]
mod unknown_programs; // Programs that do not belong to a job.
mod widths; // Output on 80, 120 and 200 columns.
