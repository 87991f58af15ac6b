//! Input that is nearly valid: whatever it says, it is read or refused, without a panic and without memory beyond what its size allows.
//!
//! Each reader is given changed input for a few seconds, or as many as `PIPEZERO_FUZZ_SECONDS` says, in a process of its own whose address
//! space is bounded by the system. The input of a panic lies in a file that the failure names.

mod mutate;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pipezero_config::hugging_face::{Fit, PublishedModel, PublishedWeights};
use pipezero_config::{Resources, RunFile};
use pipezero_run::checkpoint::{CheckpointReader, Checkpoints, Cursor};
use pipezero_run::engine::{AboutRun, Engine};
use pipezero_schedule::{CheckedProgram, ComputeOrder, Program};
use pipezero_tokenize::{End, Form, Job, Options, Start, TokenizeError, Watch};
use pipezero_tokens::{TokenFile, TokenType, Tokenizer, Written, train_tokenizer};
use serde_json::{Map, Value};
use tests::{Case, Draws, Mask, plan_and_batches, small_run, started};
use xxhash_rust::xxh3::xxh3_64;

use mutate::mutated;

const SECONDS: &str = "PIPEZERO_FUZZ_SECONDS";
const IN_BOUNDS: &str = "PIPEZERO_FUZZ_IN_BOUNDS";

/// Of address space, in KiB: threads and their allocators reserve far more than they use.
const LIMIT_KIB: usize = 4 << 20;

/// Runs a test's body in a process with bounded memory, for a time.
fn bounded(test: &str, mut body: impl FnMut(&mut Draws)) {
    if std::env::var_os(IN_BOUNDS).is_none() {
        let program = std::env::current_exe().expect("this program has a path");
        let script = format!("ulimit -v {LIMIT_KIB}; exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).arg(program).args(["--exact", test, "--nocapture"]);
        let output = command.env(IN_BOUNDS, "1").output().expect("a process runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
        let line = out.lines().find(|line| line.contains("inputs")).expect("it says what it did");
        println!("{test}: {line}");
        return;
    }
    let seconds = std::env::var(SECONDS).ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(3);
    let start = Instant::now();
    let mut num_inputs = 0;
    while start.elapsed() < Duration::from_secs(seconds) {
        num_inputs += 1;
        body(&mut Draws(num_inputs));
    }
    println!("{num_inputs} inputs in {seconds} s");
}

/// Writes an input to a file and names it if it makes a reader panic.
struct Kept<'a>(&'a [u8]);

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let path = std::env::temp_dir().join(format!("pipezero-fuzz-{}", std::process::id()));
            fs::write(&path, self.0).expect("the input is kept");
            println!("the input is in {}", path.display());
        }
    }
}

#[test]
fn run_files() {
    let folder = Path::new("../engine/configs");
    let files = fs::read_dir(folder).expect("examples").map(|file| file.expect("an example").path());
    let mut files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|ending| ending == "json")).collect();
    files.sort();
    let seeds: Vec<Vec<u8>> = files.iter().map(|path| fs::read(path).expect("an example")).collect();
    bounded("fuzz::run_files", |draws| {
        let seed = draws.of(&seeds);
        let input = mutated(draws, &seed);
        let _kept = Kept(&input);
        let Ok(text) = std::str::from_utf8(&input) else { return };
        match RunFile::parse("run.json", text).and_then(|file| file.resolve(Resources::this_host())) {
            Ok((run, _)) => drop(serde_json::to_string(&run).expect("a run has string keys")),
            Err(errors) => assert!(!errors.to_string().is_empty()),
        }
    });
}

#[test]
fn folders_of_transformers() {
    let published = Path::new("golden/published/llama-one-kv-head");
    let home = tempfile::tempdir().expect("a temporary folder");
    for file in fs::read_dir(published).expect("a folder").map(|file| file.expect("a file")) {
        if file.path().is_file() {
            fs::copy(file.path(), home.path().join(file.file_name())).expect("a copy");
        }
    }
    let model = PublishedModel::open(home.path()).expect("a model");
    let layers = model.model.build().expect("a valid model").layers;
    let specs: Vec<_> = layers.iter().flat_map(|layer| layer.layer.parameters()).collect();
    let (index, shard) = ("model.safetensors.index.json", "model-00002-of-00005.safetensors");
    let seeds =
        ["config.json", index, shard].map(|name| (name, fs::read(published.join(name)).expect("a file")));
    bounded("fuzz::folders_of_transformers", |draws| {
        let (name, seed) = draws.of(&seeds);
        let input = mutated(draws, &seed);
        let _kept = Kept(&input);
        fs::write(home.path().join(name), &input).expect("it is written");
        if let Err(error) = PublishedModel::open(home.path()) {
            assert!(!error.to_string().is_empty());
        }
        let shapes = specs.iter().map(|spec| (&*spec.name, &*spec.shape));
        if let Ok(weights) = PublishedWeights::open(home.path(), &model, shapes, Fit::Same) {
            for spec in &specs {
                let mut values = vec![0.0; spec.num_elements_of_all()];
                weights.read(&spec.name, 0, &mut values).expect("what was opened is read");
            }
        }
        fs::write(home.path().join(name), &seed).expect("it is mended");
    });
}

/// The index of a file of tokens, llm.c's header, and a tokenizer: what is opened is read.
#[test]
fn token_files_and_tokenizers() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| home.path().join(name);
    train_tokenizer(["a small text, a small text"].into_iter(), 270, &path(Tokenizer::FILE))
        .expect("a tokenizer");
    fs::write(path("lines.jsonl"), LINES).expect("a text");
    tokenized(home.path()).expect("lines of JSON");
    let header: Vec<u8> = [20_240_520_u32, 1, 3].iter().flat_map(|word| word.to_le_bytes()).collect();
    fs::write(path("llm-c.bin"), [header, vec![0; 1012], vec![1, 0, 2, 0, 3, 0]].concat())
        .expect("a file of tokens");
    let names = ["tokens.idx", "tokens.bin", "llm-c.bin", Tokenizer::FILE, "lines.jsonl"];
    let seeds = names.map(|name| (name, fs::read(path(name)).expect("a file")));
    bounded("fuzz::token_files_and_tokenizers", |draws| {
        let (name, seed) = draws.of(&seeds);
        let input = mutated(draws, &seed);
        let _kept = Kept(&input);
        fs::write(path(name), &input).expect("it is written");
        match name {
            "lines.jsonl" => drop(tokenized(home.path())),
            Tokenizer::FILE => {
                if let Ok(tokenizer) = Tokenizer::load(&path(name), None) {
                    let tokens = tokenizer.encode("a small text\u{301} of 1234 tokens").unwrap_or_default();
                    let _ = tokenizer.decode(&tokens);
                }
            }
            _ => {
                let bin = path(if name == "llm-c.bin" { "llm-c.bin" } else { "tokens.bin" });
                if let Ok(file) = TokenFile::open(&bin, TokenType::U16) {
                    let _ = file.scan(300, |_, _| {});
                }
            }
        }
        fs::write(path(name), &seed).expect("it is mended");
    });
}

const LINES: &str = "{\"text\": \"a small text\"}\n{\"prompt\": \"a\", \"completion\": \" text\"}\n\
    {\"tokens\": [1, 2, 3], \"mask\": [0, 1, 1]}\n";

/// Tokenizes the lines of a folder.
fn tokenized(home: &Path) -> Result<(), TokenizeError> {
    struct Silent;
    impl Watch for Silent {
        fn progress(&mut self, _: u64, _: Written) {}
    }
    let options = Options {
        inputs: vec![home.join("lines.jsonl")],
        tokenizer: home.to_owned(),
        end: End::Known,
        prefix: home.join("tokens"),
        form: Form::default(),
        num_threads: 1,
        save_every: 1 << 20,
        start: Start::Overwrite,
    };
    Job::new(options)?.run(&mut Silent).map(drop)
}

#[test]
fn schedule_texts() {
    let (plan, _) =
        plan_and_batches(small_run(Case { pipeline: 2, num_micro_batches: 3, ..Case::ONE_RANK }), Mask::None);
    let program = plan.training().program().to_string();
    let order = "0F0,0F1,,,0B0,,0B1\n,1F0,1B0,1F1,,1B1,\n";
    bounded("fuzz::schedule_texts", |draws| {
        let is_program = draws.of(&[true, false]);
        let input = mutated(draws, if is_program { program.as_bytes() } else { order.as_bytes() });
        let _kept = Kept(&input);
        let Ok(text) = std::str::from_utf8(&input) else { return };
        if !is_program {
            let _ = ComputeOrder::from_csv(text);
        } else if let Ok(program) = text.parse::<Program>() {
            let _ = CheckedProgram::new(program);
        }
    });
}

/// A checkpoint of a small run, and an engine that could read it.
fn checkpoint(home: &Path) -> (Checkpoints, Engine) {
    let mut engine = started(Engine::new, small_run(Case::ONE_RANK), Mask::None);
    let checkpoints = Checkpoints::of_run(home);
    engine.write_checkpoint(&checkpoints, &AboutRun::default()).expect("a checkpoint");
    (checkpoints, engine)
}

fn checksum(bytes: &[u8]) -> Value {
    format!("{:016x}", xxh3_64(bytes)).into()
}

/// With the checksums that its fields have now, so that what they say is looked at.
fn with_checksums(manifest: &[u8]) -> Option<Vec<u8>> {
    let mut fields: Map<String, Value> = serde_json::from_slice(manifest).ok()?;
    fields.remove("checksums");
    let of = |value: &Value| checksum(serde_json::to_string(value).expect("a value").as_bytes());
    let checksums: Map<String, Value> =
        fields.iter().map(|(name, value)| (name.clone(), of(value))).collect();
    fields.insert("checksums".to_owned(), checksums.into());
    serde_json::to_vec(&fields).ok()
}

/// Reads what can be read.
fn read(folder: &Path, engine: &mut Engine) {
    let Ok(reader) = CheckpointReader::open(folder) else { return };
    let _ = reader.verify();
    let mut cursor = Cursor::new(&reader);
    for parameter in &reader.manifest().parameters {
        let mut values = [0.0; 8];
        let len = parameter.num_elements().min(values.len());
        for kind in &reader.manifest().kinds {
            let _ = cursor.read(kind, &parameter.name, 0, &mut values[..len]);
        }
    }
    let _ = engine.resume(&Arc::new(reader));
}

#[test]
fn manifests() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let (checkpoints, mut engine) = checkpoint(home.path());
    let folder = checkpoints.at(0);
    let manifest = fs::read(folder.join("manifest.json")).expect("a manifest");
    bounded("fuzz::manifests", |draws| {
        let input = mutated(draws, &manifest);
        let input = with_checksums(&input).filter(|_| draws.of(&[true, true, false])).unwrap_or(input);
        let _kept = Kept(&input);
        fs::write(folder.join("manifest.json"), &input).expect("it is written");
        read(&folder, &mut engine);
    });
}

#[test]
fn headers_of_checkpoints() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let (checkpoints, mut engine) = checkpoint(home.path());
    let folder = checkpoints.at(0);
    let path = folder.join("rank-00000.safetensors");
    let file = fs::read(&path).expect("a file");
    let manifest = fs::read(folder.join("manifest.json")).expect("a manifest");
    let manifest: Value = serde_json::from_slice(&manifest).expect("a manifest");
    bounded("fuzz::headers_of_checkpoints", |draws| {
        let (input, header_bytes) = with_header(draws, &file);
        let _kept = Kept(&input);
        let mut manifest = manifest.clone();
        let record = &mut manifest["files"][0];
        record["num_bytes"] = input.len().into();
        record["header_checksum"] = checksum(&input[..header_bytes.min(input.len())]);
        let manifest =
            with_checksums(&serde_json::to_vec(&manifest).expect("a manifest")).expect("an object");
        fs::write(folder.join("manifest.json"), manifest).expect("it is written");
        fs::write(&path, &input).expect("it is written");
        read(&folder, &mut engine);
    });
}

#[test]
fn headers_of_weights() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let path = home.path().join("weights.safetensors");
    let mut engine = started(Engine::new, small_run(Case::ONE_RANK), Mask::None);
    engine.save(&path).expect("weights");
    let file = fs::read(&path).expect("a file");
    bounded("fuzz::headers_of_weights", |draws| {
        let (input, _) = with_header(draws, &file);
        let _kept = Kept(&input);
        fs::write(&path, &input).expect("it is written");
        let _ = engine.load(&path);
    });
}

/// A safetensors file with a changed header, mostly with the length that it has now, and where its data begins.
fn with_header(draws: &mut Draws, file: &[u8]) -> (Vec<u8>, usize) {
    let length = u64::from_le_bytes(file[..8].try_into().expect("8 bytes")) as usize;
    let header = mutated(draws, &file[8..8 + length]);
    let claimed = match draws.below(8) {
        0 => length as u64,
        1 => draws.of(&[0, 1, u64::MAX, u64::MAX - 7, 1 << 40, 99_999_999]),
        _ => header.len() as u64,
    };
    let mut input = Vec::new();
    input.write_all(&claimed.to_le_bytes()).expect("memory takes all");
    input.extend_from_slice(&header);
    input.extend_from_slice(&file[8 + length..]);
    let header_bytes = 8_u64.saturating_add(claimed);
    (input, usize::try_from(header_bytes).unwrap_or(usize::MAX))
}
