//! Schedules: how many stages each runs on a rank, and the user's own files.

use std::path::PathBuf;

use expect_test::{Expect, expect};
use pipezero_schedule::generate::one_f_one_b;

use super::{RESOURCES, beside_defaults, check_each, check_values, file, listed, run, said};
use crate::RunFile;
use crate::resolved::{ParallelConfig, ScheduleConfig};

/// What `parallel` becomes.
fn parallel(keys: &str) -> ParallelConfig {
    run(&[("parallel", keys)]).parallel
}

#[test]
fn every_name_is_its_schedule() {
    for (name, expected) in [
        ("gpipe", ScheduleConfig::GPipe),
        ("1f1b", ScheduleConfig::OneFOneB),
        ("eager-1f1b", ScheduleConfig::EagerOneFOneB),
    ] {
        let found = parallel(&format!(r#"{{"pipeline": 2, "schedule": "{name}", "virtual_stages": 1}}"#));
        assert_eq!((found.schedule, found.virtual_stages), (expected, 1), "{name}");
    }
    let bfs = parallel(r#"{"pipeline": 2, "schedule": "bfs", "virtual_stages": 2}"#);
    assert_eq!((bfs.num_stages(), bfs.schedule, bfs.virtual_stages), (4, ScheduleConfig::Bfs, 2));
    let interleaved = |group: &str| {
        parallel(&format!(r#"{{"pipeline": 2, "schedule": "interleaved", "virtual_stages": 2{group}}}"#))
            .schedule
    };
    assert_eq!(interleaved(""), ScheduleConfig::Interleaved { group_size: 2 });
    assert_eq!(interleaved(r#", "group_size": 3"#), ScheduleConfig::Interleaved { group_size: 3 });
    assert_eq!(parallel("{}").schedule, ScheduleConfig::OneFOneB);
}

#[test]
fn unknown_schedules_are_refused() {
    check_values(
        "parallel",
        &[
            r#"{"schedule": "zb-1p"}"#,
            r#"{"schedule": "1f2b"}"#,
            r#"{"schedule": "interleave"}"#,
            r#"{"schedule": {"files": "a.csv"}}"#,
        ],
        expect![[r#"
            run.json:6:28: `parallel.schedule` is "zb-1p", but that is not offered yet; use "gpipe", "1f1b", "eager-1f1b", "interleaved", "bfs", "zb-h1", "zb-h2" or "zb-v"
            run.json:6:28: `parallel.schedule` is "1f2b", but it must be "gpipe", "1f1b", "eager-1f1b", "interleaved", "bfs", "zb-h1", "zb-h2" or "zb-v"; did you mean "1f1b"?
            run.json:6:28: `parallel.schedule` is "interleave", but it must be "gpipe", "1f1b", "eager-1f1b", "interleaved", "bfs", "zb-h1", "zb-h2" or "zb-v"; did you mean "interleaved"?
            run.json:6:29: unknown key `parallel.schedule.files`; did you mean `file`?
        "#]],
    );
}

#[test]
fn virtual_stages_belong_to_schedules_that_are_made_for_them() {
    check_values(
        "parallel",
        &[
            r#"{"pipeline": 2, "schedule": "interleaved"}"#,
            r#"{"pipeline": 2, "schedule": "bfs"}"#,
            r#"{"schedule": "interleaved", "virtual_stages": 1}"#,
            r#"{"schedule": "bfs", "virtual_stages": 0}"#,
            r#"{"virtual_stages": 2}"#,
            r#"{"schedule": "gpipe", "virtual_stages": 0}"#,
            r#"{"schedule": "eager-1f1b", "virtual_stages": 3}"#,
        ],
        expect![[r#"
            run.json:6:3: `parallel.virtual_stages` is missing: "interleaved" runs several stages on each rank; add 2 or more, or use the schedule "1f1b"
            run.json:6:3: `parallel.virtual_stages` is missing: "bfs" runs several stages on each rank; add 2 or more, or use the schedule "gpipe"
            run.json:6:61: `parallel.virtual_stages` is 1, but "interleaved" runs at least 2 stages on each rank; use 2 or more, or the schedule "1f1b"
            run.json:6:53: `parallel.virtual_stages` is 0, but "bfs" runs at least 2 stages on each rank; use 2 or more, or the schedule "gpipe"
            run.json:6:34: `parallel.virtual_stages` is 2, but "1f1b" runs one stage on each rank; set 1, or use "interleaved" or "bfs"
            run.json:6:55: `parallel.virtual_stages` is 0, but it must be at least 1; use 1 or more
            run.json:6:60: `parallel.virtual_stages` is 3, but "eager-1f1b" runs one stage on each rank; set 1, or use "interleaved" or "bfs"
        "#]],
    );
}

#[test]
fn every_stage_has_a_layer() {
    let stages = |pipeline: usize, stages: &str| {
        format!(r#"{{"pipeline": {pipeline}, "schedule": "bfs", "virtual_stages": {stages}}}"#)
    };
    check_values(
        "parallel",
        &[
            &stages(2, "3"),
            &stages(3, "2"),
            &stages(5, "2"),
            &stages(1, "5"),
            &stages(2, "18446744073709551615"),
        ],
        expect![[r#"
            run.json:6:68: `parallel.virtual_stages` is 3, but with `parallel.pipeline` 2 that is 6 stages, and the model has 4 layers: every stage needs at least one; use at most 2
            run.json:6:68: `parallel.virtual_stages` is 2, but with `parallel.pipeline` 3 that is 6 stages, and the model has 4 layers: every stage needs at least one; use a pipeline of at most 2
            run.json:6:28: `parallel.pipeline` is 5, but the model has 4 layers: every stage needs at least one; use at most 4
            run.json:6:68: `parallel.virtual_stages` is 5, but with `parallel.pipeline` 1 that is 5 stages, and the model has 4 layers: every stage needs at least one; use at most 4
            run.json:6:68: `parallel.virtual_stages` is 18446744073709551615, but with `parallel.pipeline` 2 that is 36893488147419103230 stages, and the model has 4 layers: every stage needs at least one; use at most 2
        "#]],
    );
    assert_eq!(parallel(&stages(1, "4")).num_stages(), 4);
}

#[test]
fn groups_belong_to_interleaved_and_are_no_shorter_than_the_pipeline() {
    let interleaved = r#"{"pipeline": 2, "schedule": "interleaved", "virtual_stages": 2, "group_size": 1}"#;
    let bfs = r#"{"pipeline": 2, "schedule": "bfs", "virtual_stages": 2, "group_size": 2}"#;
    check_values(
        "parallel",
        &[interleaved, r#"{"pipeline": 2, "group_size": 2}"#, bfs],
        expect![[r#"
            run.json:6:93: `parallel.group_size` is 1, but `parallel.pipeline` is 2: with smaller groups a rank would reach its next stage before the first micro-batch has passed all ranks, and wait for ever; use 2 or more
            run.json:6:45: `parallel.group_size` is 2, but only "interleaved" runs micro-batches in groups; remove it
            run.json:6:85: `parallel.group_size` is 2, but only "interleaved" runs micro-batches in groups; remove it
        "#]],
    );
}

/// A folder with a run file of two ranks whose schedule is `order.csv`.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(csv: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        std::fs::write(folder.path("order.csv"), csv).unwrap();
        std::fs::write(folder.path("run.json"), file(&[("gradient_accumulation_steps", "2")])).unwrap();
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn load(&self, parallel: &str) -> RunFile {
        let argument = format!("parallel={parallel}");
        RunFile::load(&self.path("run.json")).unwrap().set(&[argument]).unwrap()
    }

    /// Compares what is said of several values of `parallel`: errors, or notices.
    fn check(&self, parallels: &[&str], expected: Expect) {
        let found = listed(parallels.iter().map(|parallel| said(self.load(parallel).resolve(RESOURCES))));
        let path = self.0.path().to_str().expect("temporary folders have plain names");
        expected.assert_eq(&found.replace(path, "FOLDER"));
    }
}

const FROM_FILE: &str = r#"{"pipeline":2,"schedule":{"file":"order.csv"}}"#;

#[test]
fn a_file_is_read_from_the_run_files_folder() {
    let order = one_f_one_b(2, 2).unwrap();
    let folder = Folder::new(&order.to_csv());
    let (run, notices) = folder.load(FROM_FILE).resolve(RESOURCES).unwrap();
    assert_eq!(beside_defaults(&notices).count(), 0, "{notices:?}");
    let ScheduleConfig::File { path, order: found } = &run.parallel.schedule else {
        panic!("{:?}", run.parallel.schedule)
    };
    assert_eq!((path, found.as_ref()), (&folder.path("order.csv"), &order));
    assert_eq!((run.parallel.num_stages(), run.parallel.virtual_stages), (2, 1));
}

/// The object's own mistakes are reported at its keys.
#[test]
fn a_file_is_named_by_a_string() {
    check_values(
        "parallel",
        &[
            r#"{"schedule": {"file": 3}}"#,
            r#"{"schedule": {"file": null}}"#,
            r#"{"schedule": {"files": "a.csv"}}"#,
            r#"{"schedule": {"file": "a.csv", "group_size": 2}}"#,
            r#"{"schedule": {}}"#,
            r#"{"schedule": 3}"#,
        ],
        expect![[r#"
            run.json:6:37: `parallel.schedule.file` must be a string, but is 3; write a string
            run.json:6:37: `parallel.schedule.file` must be a string, but is null; write a string
            run.json:6:29: unknown key `parallel.schedule.files`; did you mean `file`?
            run.json:6:46: unknown key `parallel.schedule.group_size`; write `parallel.group_size`
            run.json:6:28: `parallel.schedule.file` is missing: an object must name a file here; write {"file": "..."}
            run.json:6:28: `parallel.schedule` must be "gpipe", "1f1b", "eager-1f1b", "interleaved", "bfs", "zb-h1", "zb-h2" or "zb-v" or {"file": "..."}, but is 3; write a value such as "1f1b"
        "#]],
    );
}

/// A V: rank 0 has the first stage and the last.
#[test]
fn a_file_places_its_stages() {
    let folder = Folder::new("0F0,0F1,3F0,3B0,3F1,3B1,0B0,0B1\n1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1\n");
    let (run, _) = folder.load(FROM_FILE).resolve(RESOURCES).unwrap();
    assert_eq!((run.parallel.num_stages(), run.parallel.virtual_stages), (4, 2));
    // Of four layers each rank has two, one in each of its stages: two units, so ZeRO-3 is not refused.
    let argument = ["zero_optimization.stage=3".to_owned()];
    folder.load(FROM_FILE).set(&argument).unwrap().resolve(RESOURCES).unwrap();
}

#[test]
fn a_file_has_the_runs_ranks_and_micro_batches() {
    let folder = Folder::new(&one_f_one_b(2, 3).unwrap().to_csv());
    folder.check(
        &[
            FROM_FILE,
            r#"{"pipeline":4,"schedule":{"file":"order.csv"}}"#,
            r#"{"pipeline":2,"schedule":{"file":"order.csv"},"virtual_stages":1}"#,
            r#"{"pipeline":2,"schedule":{"file":"order.csv"},"group_size":2}"#,
        ],
        expect![[r#"
            --set parallel={"pipeline":2,"schedule":{"file...: `parallel.schedule` is file "order.csv", but it has 3 micro-batches and a step of this run has 2; set `gradient_accumulation_steps` to 3
            --set parallel={"pipeline":4,"schedule":{"file...: `parallel.schedule` is file "order.csv", but it has 2 rows and `parallel.pipeline` is 4; set `parallel.pipeline` to 2
            --set parallel={"pipeline":2,"schedule":{"file...: `parallel.virtual_stages` is 1, but a schedule file says itself which stages each rank has; remove it
            --set parallel={"pipeline":2,"schedule":{"file...: `parallel.group_size` is 2, but only "interleaved" runs micro-batches in groups; remove it
        "#]],
    );
    let stages = "0F0,2F0,4F0,4B0,2B0,0B0\n1F0,3F0,5F0,5B0,3B0,1B0\n";
    Folder::new(stages).check(&[FROM_FILE], expect![[r#"
        --set parallel={"pipeline":2,"schedule":{"file...: `parallel.schedule` is file "order.csv", but it has 6 stages, and the model has 4 layers: every stage needs at least one; use a schedule of fewer stages, or a deeper model
    "#]]);
}

#[test]
fn a_file_that_is_no_schedule() {
    let folder = Folder::new("0F0,0X0\n");
    folder.check(
        &[
            FROM_FILE,
            r#"{"schedule":{"file":"other.csv"}}"#,
            r#"{"schedule":"order.csv"}"#,
            r#"{"schedule":{"file":"."}}"#,
        ],
        expect![[r#"
            --set parallel={"pipeline":2,"schedule":{"file...: `parallel.schedule` is file "order.csv", but it is no schedule: row 1, column 2, `0X0`: not an action: a stage, one of `F`, `B`, `I`, `W`, and a micro-batch, as in `0F0`; nothing for idle; name a file in PyTorch's pipelining CSV: a row per rank, such as `0F0,0F1,0B0,0B1`
            --set parallel={"schedule":{"file":"other.csv"...: `parallel.schedule` is file "other.csv", but `FOLDER/other.csv` cannot be read: No such file or directory (os error 2); relative paths start at the run file's folder; name a file in PyTorch's pipelining CSV: a row per rank, such as `0F0,0F1,0B0,0B1`
            --set parallel={"schedule":"order.csv"}: `parallel.schedule` is "order.csv", but it must be "gpipe", "1f1b", "eager-1f1b", "interleaved", "bfs", "zb-h1", "zb-h2" or "zb-v", or an object that names a file; write {"file": "order.csv"}
            --set parallel={"schedule":{"file":"."}}: `parallel.schedule` is file ".", but `FOLDER` cannot be read: it is a folder, and only regular files of at most 16777216 bytes are read; relative paths start at the run file's folder; name a file in PyTorch's pipelining CSV: a row per rank, such as `0F0,0F1,0B0,0B1`
        "#]],
    );
    Folder::new("0F0,0F1\n1F0,1F1\n").check(&[FROM_FILE], expect![[r#"
        --set parallel={"pipeline":2,"schedule":{"file...: `parallel.schedule` is file "order.csv", but it has no backwards, so the model would learn nothing; add the backwards
    "#]]);
}

/// What is recomputed lies in one shared buffer, which a delayed weight gradient would keep occupied.
#[test]
fn split_backwards_are_whole_where_activations_are_recomputed() {
    let halves = "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1W0,1F1,1I1,1W1\n";
    Folder::new(halves).check(&[FROM_FILE], expect![["valid\n"]]);
    let every = ("activation_checkpointing", r#"{"every_layers": 1}"#);
    let on = ("activation_checkpointing", r#"{"enabled": true}"#);
    check_each(
        &[
            &[("parallel", r#"{"pipeline": 2, "schedule": "zb-h1"}"#), every],
            &[("parallel", r#"{"pipeline": 2, "schedule": "zb-h2"}"#), every],
            &[("parallel", r#"{"pipeline": 2, "schedule": "zb-v"}"#), every],
            &[("parallel", r#"{"schedule": "zb-h1"}"#), on],
        ],
        expect![[r#"
            run.json:7:48: `activation_checkpointing.every_layers` is 1, but `parallel.schedule` runs weight gradients apart from input gradients: those that wait would need all that was recomputed for them, which is what checkpointing is to save; remove it, or use a schedule with whole backwards, such as "1f1b"
            run.json:7:48: `activation_checkpointing.every_layers` is 1, but `parallel.schedule` runs weight gradients apart from input gradients: those that wait would need all that was recomputed for them, which is what checkpointing is to save; remove it, or use a schedule with whole backwards, such as "1f1b"
            run.json:7:48: `activation_checkpointing.every_layers` is 1, but `parallel.schedule` runs weight gradients apart from input gradients: those that wait would need all that was recomputed for them, which is what checkpointing is to save; remove it, or use a schedule with whole backwards, such as "1f1b"
            run.json:7:43: `activation_checkpointing.enabled` is true, but `parallel.schedule` runs weight gradients apart from input gradients: those that wait would need all that was recomputed for them, which is what checkpointing is to save; remove it, or use a schedule with whole backwards, such as "1f1b"
        "#]],
    );
}

/// Two stages, on the way down the ranks and back.
#[test]
fn a_v_has_two_stages_on_each_rank() {
    let v = |stages: &str| parallel(&format!(r#"{{"pipeline": 2, "schedule": "zb-v"{stages}}}"#));
    for written in ["", r#", "virtual_stages": 2"#] {
        let config = v(written);
        assert_eq!((&config.schedule, config.virtual_stages), (&ScheduleConfig::ZbV, 2));
    }
    check_values(
        "parallel",
        &[r#"{"pipeline": 2, "schedule": "zb-v", "virtual_stages": 3, "group_size": 2}"#],
        expect![[r#"
            run.json:6:69: `parallel.virtual_stages` is 3, but "zb-v" runs 2 stages on each rank; remove it, or set 2
              run.json:6:86: `parallel.group_size` is 2, but only "interleaved" runs micro-batches in groups; remove it
        "#]],
    );
}

/// It trains; bits differ, and that is said.
#[test]
fn backwards_in_another_order_are_warned_of() {
    Folder::new("0F0,0F1,0B1,0B0\n1F0,1F1,1B1,1B0\n").check(&[FROM_FILE], expect![[r#"
        --set parallel={"pipeline":2,"schedule":{"file...: warning: `parallel.schedule`: it runs backwards of a stage in another order than that of the micro-batches, first at `0B0` at row 1, column 4, so gradients are added in another order: results are close to those of other schedules, and not bit-identical
    "#]]);
}
