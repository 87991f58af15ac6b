//! Run files that pages show are run files: each loads, and nothing in it is without effect, unless it came from DeepSpeed.

use std::path::Path;

use pipezero::config::{GivenFile, Launch, RunFile};

/// The page whose run file keeps DeepSpeed's keys, for some of which there is a hint.
const FROM_DEEPSPEED: &str = "docs/from-deepspeed.md";
const PAGES: [&str; 5] =
    ["README.md", "docs/run-file.md", FROM_DEEPSPEED, "docs/from-megatron.md", "docs/from-torchtitan.md"];

/// The blocks of JSON in a page.
fn blocks(page: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let blocks = text.split("```json\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap_or(block).to_owned()).collect()
}

#[test]
fn every_run_file_that_a_page_shows_loads() {
    for page in PAGES {
        let blocks = blocks(page);
        assert!(!blocks.is_empty(), "{page} shows no run file");
        for block in blocks {
            let resolved = RunFile::parse(page, &block).and_then(|file| file.resolve(Launch::this_host()));
            let (_, notices) = resolved.unwrap_or_else(|errors| panic!("{errors}\n{block}"));
            assert!(notices.is_empty() || page == FROM_DEEPSPEED, "{page}: {notices:#?}");
        }
    }
}

/// The file of several models on its page, with the run file of the engine that has one of its own.
#[test]
fn the_master_file_that_a_page_shows_loads() {
    let blocks = blocks("docs/several-models.md");
    assert_eq!(blocks.len(), 1);
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("master.json");
    std::fs::write(&path, &blocks[0]).unwrap();
    std::fs::write(home.path().join("student.json"), self::blocks("README.md")[0].as_bytes()).unwrap();
    let GivenFile::Master(master) = GivenFile::load(&path).unwrap_or_else(|errors| panic!("{errors}")) else {
        panic!("it is a master file")
    };
    let names: Vec<&str> = master.engines().collect();
    assert_eq!(master.task(Some("pair")).unwrap().engines(), names);
    for name in names {
        let file = master.engine(name).unwrap_or_else(|errors| panic!("{errors}")).file;
        let (_, notices) = file.resolve(Launch::this_host()).unwrap_or_else(|errors| panic!("{errors}"));
        assert!(notices.is_empty(), "{name}: {notices:#?}");
    }
}
