//! Run files that pages show are run files: each loads, and nothing in it is without effect, unless it came from DeepSpeed.

use std::fs;
use std::path::Path;

use pipezero_config::testing::beside_defaults;
use pipezero_config::{ConfigErrors, GivenFile, Notice, Resources, RunFile};
use pipezero_plan::Plan;
use serde_json::Value;

/// The page whose run file keeps DeepSpeed's keys, for some of which there is a hint.
const FROM_DEEPSPEED: &str = "docs/from-deepspeed.md";
const PAGES: [&str; 5] =
    ["README.md", "docs/run-file.md", FROM_DEEPSPEED, "docs/from-megatron.md", "docs/from-torchtitan.md"];

fn read(page: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The blocks of JSON in a page.
fn blocks(page: &str) -> Vec<String> {
    let text = read(page);
    let blocks = text.split("```json\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap_or(block).to_owned()).collect()
}

/// Whether no more is said than which defaults stand.
fn are_defaults(notices: &[Notice]) -> bool {
    beside_defaults(notices).next().is_none()
}

/// A run file that a page shows. A file that it extends is an example.
fn loaded(page: &str, block: &str) -> Result<RunFile, ConfigErrors> {
    let Some((_, named)) = block.split_once("\"extends\": \"") else { return RunFile::parse(page, block) };
    let named = named.split('"').next().expect("a name ends");
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/configs");
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::copy(examples.join(named), folder.path().join(named)).expect("it is an example");
    let path = folder.path().join("run.json");
    fs::write(&path, block).expect("it is written");
    RunFile::load(&path)
}

#[test]
fn every_run_file_that_a_page_shows_loads() {
    for page in PAGES {
        let blocks = blocks(page);
        assert!(!blocks.is_empty(), "{page} shows no run file");
        for block in blocks {
            let resolved = loaded(page, &block).and_then(|file| file.resolve(Resources::this_host()));
            let (_, notices) = resolved.unwrap_or_else(|errors| panic!("{errors}\n{block}"));
            assert!(are_defaults(&notices) || page == FROM_DEEPSPEED, "{page}: {notices:#?}");
        }
    }
}

/// A newcomer copies the README's: nothing is to be said against it, once it is planned either.
#[test]
fn the_plan_of_the_readmes_run_file_has_no_diagnostic() {
    let file = RunFile::parse("README.md", &blocks("README.md")[0]).unwrap();
    let (plan, notices) = Plan::from_file(&file, Resources::this_host()).unwrap();
    let diagnostics = plan.diagnostics();
    assert!(are_defaults(&notices) && diagnostics.is_empty(), "{notices:#?}, {diagnostics:#?}");
}

/// The files of several models on their page, with the run files of the engines that have one of their own. A teacher is no run to be trained.
#[test]
fn the_master_files_that_a_page_shows_load() {
    let blocks = blocks("docs/several-models.md");
    let shown = [("pair", ["student", "other"], 2), ("distill", ["small", "large"], 1)];
    assert_eq!(blocks.len(), shown.len());
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("master.json");
    for (block, (task, names, num_trained)) in blocks.iter().zip(shown) {
        std::fs::write(&path, block).unwrap();
        let first = home.path().join(names[0]).with_extension("json");
        std::fs::write(first, self::blocks("README.md")[0].as_bytes()).unwrap();
        let GivenFile::Master(master) = GivenFile::load(&path).unwrap_or_else(|errors| panic!("{errors}"))
        else {
            panic!("it is a master file")
        };
        assert_eq!(master.engines().collect::<Vec<_>>(), names);
        let task = master.task(Some(task)).unwrap();
        assert_eq!((task.engines(), task.trained().len()), (names.map(str::to_owned).to_vec(), num_trained));
        for name in task.trained() {
            let file = master.engine(name).unwrap_or_else(|errors| panic!("{errors}")).file;
            let (_, notices) =
                file.resolve(Resources::this_host()).unwrap_or_else(|errors| panic!("{errors}"));
            assert!(are_defaults(&notices), "{name}: {notices:#?}");
        }
    }
}

/// The file at the top of the page, with its own task and with the one that gives its engines ranks of their own: `-n` of every command is what they
/// need.
#[test]
fn jobs_that_the_page_on_several_models_starts_have_the_processes_that_its_file_needs() {
    let page = read("docs/several-models.md");
    let shared: Value = serde_json::from_str(&blocks("docs/several-models.md")[0]).unwrap();
    let mut apart = shared.clone();
    let (_, tasks) = page.split_once("```text\n\"tasks\": ").expect("the page shows tasks");
    apart["tasks"] = serde_json::from_str(tasks.split("```").next().unwrap()).unwrap();
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("master.json");
    std::fs::write(home.path().join("student.json"), &blocks("README.md")[0]).unwrap();
    for (file, heading) in [(shared, "## Ranks as processes"), (apart, "## Engines on ranks of their own")] {
        std::fs::write(&path, file.to_string()).unwrap();
        let Ok(GivenFile::Master(master)) = GivenFile::load(&path) else { panic!("{file}") };
        let task = master.task(Some("pair")).unwrap();
        let grid = |name: &String| {
            let file = master.engine(name).unwrap_or_else(|errors| panic!("{errors}")).file;
            file.resolve(Resources::this_host()).unwrap_or_else(|errors| panic!("{errors}")).0.parallel
        };
        let grids: Vec<_> = task.engines().iter().map(|name| (name.clone(), grid(name))).collect();
        let grids: Vec<_> = grids.iter().map(|(name, grid)| (name.as_str(), grid)).collect();
        let num_ranks = task.job_ranks(&grids, None).unwrap_or_else(|errors| panic!("{errors}")).num_ranks();
        // An engine that shares ranks has one in each process.
        assert!(task.says_ranks() || grids.iter().all(|(_, grid)| grid.pipeline * grid.data == num_ranks));
        let (_, section) = page.split_once(heading).expect("the page has the heading");
        let section = section.split("\n## ").next().unwrap();
        let commands: Vec<&str> = section.split(" -n ").skip(1).collect();
        assert_eq!(commands.len(), 2, "{heading}");
        for command in commands {
            assert_eq!(command.split(' ').next(), Some(&*num_ranks.to_string()), "{heading}");
        }
    }
}
