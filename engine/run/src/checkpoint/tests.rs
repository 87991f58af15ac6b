//! Files of a checkpoint: written, read back, and broken on purpose.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::blocks::BLOCK_BYTES;
use super::*;

/// Elements of a block.
const BLOCK: usize = BLOCK_BYTES / 4;

fn value(kind: &str, name: &str, index: usize) -> f32 {
    (index as f32).mul_add(0.25, (kind.len() * 31 + name.len()) as f32)
}

/// A checkpoint of two parameters, cut into pieces over two files.
fn write(checkpoints: &Checkpoints, step: u64, num_elements: usize) {
    let new = checkpoints.start(step, None).unwrap();
    let kinds = [Piece::PARAMETER, "exp_avg"];
    let shapes = [("a", num_elements), ("b.weight", 7)];
    let mut manifest = Manifest {
        kinds: kinds.map(str::to_owned).to_vec(),
        parameters: shapes
            .map(|(name, num)| ParameterRecord { name: name.to_owned(), shape: vec![num], is_frozen: false })
            .to_vec(),
        run: serde_json::json!({ "steps": 10, "lr": 0.0006 }),
        ..Manifest::new(Position { step, update: step, num_samples: 8 * step })
    };
    for rank in 0..2 {
        let half = |num: usize| if rank == 0 { 0..num / 3 } else { num / 3..num };
        let piece = |kind: &str, (name, num): (&str, usize)| Piece {
            kind: kind.to_owned(),
            name: name.to_owned(),
            range: half(num),
        };
        let pieces: Vec<Piece> =
            kinds.iter().flat_map(|kind| shapes.map(|shape| piece(kind, shape))).collect();
        let mut file = ShardWriter::create(&checkpoints.partial(step), rank, pieces.clone()).unwrap();
        for Piece { kind, name, range } in pieces {
            let values: Vec<f32> = range.map(|index| value(&kind, &name, index)).collect();
            // In parts that end anywhere.
            values.chunks(1000).for_each(|values| file.write(values).unwrap());
        }
        manifest.files.push(file.finish().unwrap());
    }
    new.finish(&manifest).unwrap();
}

fn small() -> (tempfile::TempDir, Checkpoints) {
    let home = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::of_run(home.path());
    write(&checkpoints, 3, 40);
    (home, checkpoints)
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// What opening and reading everything comes to.
fn verify(folder: &Path) -> Result<(), CheckpointError> {
    CheckpointReader::open(folder)?.verify()
}

#[test]
fn any_elements_are_read_from_whichever_files_have_them() {
    let home = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::of_run(home.path());
    let num = 3 * BLOCK + 77;
    write(&checkpoints, 1, num);
    let reader = CheckpointReader::open(&checkpoints.at(1)).unwrap();
    reader.verify().unwrap();
    for (first, len) in
        [(0, num), (0, 1), (num - 1, 1), (num / 3 - 5, 10), (BLOCK - 1, 2), (5, BLOCK), (9, 0)]
    {
        for kind in [Piece::PARAMETER, "exp_avg"] {
            let mut values = vec![f32::NAN; len];
            Cursor::new(&reader).read(kind, "a", first, &mut values).unwrap();
            let expected: Vec<f32> = (first..first + len).map(|index| value(kind, "a", index)).collect();
            assert_eq!(values, expected, "{len} elements of {kind} from {first}");
        }
    }
}

#[test]
fn a_checkpoint_has_its_name_only_when_it_is_complete_and_the_last_are_kept() {
    let (home, checkpoints) = small();
    let folder = home.path().join(Checkpoints::NAME);
    // What a killed run leaves.
    drop(checkpoints.start(4, None).unwrap());
    assert_eq!(names(&folder), ["step-00000003", "step-00000004.partial"]);
    assert_eq!(checkpoints.steps().unwrap(), [3]);
    assert_eq!(checkpoints.first_unknown().unwrap(), None);
    write(&checkpoints, 5, 40);
    assert_eq!(names(&folder), ["step-00000003", "step-00000005"]);
    checkpoints.start(6, None).unwrap().abandon();
    // One of the same step replaces the other.
    write(&checkpoints, 5, 40);
    write(&checkpoints.clone().keeping(2), 123_456_789, 40);
    assert_eq!(checkpoints.steps().unwrap(), [5, 123_456_789]);
    assert_eq!(names(&folder).len(), 2);
    fs::write(folder.join("thesis"), "").unwrap();
    assert_eq!(checkpoints.first_unknown().unwrap().as_deref(), Some("thesis"));
}

/// Sound checksums of manifests that somebody else wrote.
#[test]
fn what_no_run_writes_is_damage() {
    let (_home, checkpoints) = small();
    let folder = checkpoints.at(3);
    let manifest = Manifest::read(&folder).unwrap();
    let refused = |expected: &str, change: &dyn Fn(&mut Manifest)| {
        let mut changed = manifest.clone();
        change(&mut changed);
        fs::write(folder.join(Manifest::FILE), changed.text()).unwrap();
        let error = CheckpointReader::open(&folder).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let uncountable = "its parameters have more elements than can be counted";
    refused(uncountable, &|manifest| manifest.parameters[0].shape = vec![1 << 40, 1 << 40]);
    refused(uncountable, &|manifest| manifest.parameters[0].shape = vec![1 << 60]);
    refused("its position is step 3, 4 updates", &|manifest| manifest.position.update = 4);
    refused("sequences", &|manifest| manifest.position.num_samples = u64::MAX);
    refused("it has no `parameter` among its kinds", &|manifest| manifest.kinds.clear());
    refused("its file `../a` is not a name", &|manifest| manifest.files[0].name = "../a".to_owned());
    refused("named after step 3", &|manifest| manifest.position.step = 9);
    // The checksum is of the key that counts.
    let twice = manifest.text().replacen("\"version\"", "\"version\": 7, \"version\"", 1);
    fs::write(folder.join(Manifest::FILE), twice).unwrap();
    let error = CheckpointReader::open(&folder).unwrap_err().to_string();
    assert!(error.contains("it is not as it was written"), "{error}");

    let header = r#"{"parameter/a/0..4611686018427387904":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}"#;
    let error = super::shard_header::ShardHeader::decode(header.as_bytes()).unwrap_err();
    assert!(error.contains("is F32 in bytes 0 to 0"), "{error}");
}

#[test]
fn elements_that_come_twice_are_damage() {
    let (_home, checkpoints) = small();
    let folder = checkpoints.at(3);
    let mut manifest = Manifest::read(&folder).unwrap();
    manifest.files.push(manifest.files[0].clone());
    fs::write(folder.join(Manifest::FILE), manifest.text()).unwrap();
    let error = CheckpointReader::open(&folder).unwrap_err().to_string();
    assert!(
        error.contains("the files have elements 0..13 of parameter `a`, which has 40, twice or in vain"),
        "{error}"
    );
    // Of a parameter that the manifest does not list.
    manifest.files.pop();
    manifest.parameters.pop();
    fs::write(folder.join(Manifest::FILE), manifest.text()).unwrap();
    let error = CheckpointReader::open(&folder).unwrap_err().to_string();
    assert!(error.contains("elements of what it does not list"), "{error}");
}

#[test]
fn a_new_checkpoint_is_complete_although_an_earlier_one_cannot_be_removed() {
    let (_home, checkpoints) = small();
    let mut manifest = CheckpointReader::open(&checkpoints.at(3)).unwrap().manifest().clone();
    manifest.position.step = 5;
    let new = checkpoints.clone().keeping(2).start(5, None).unwrap();
    for file in &manifest.files {
        fs::copy(checkpoints.at(3).join(&file.name), checkpoints.partial(5).join(&file.name)).unwrap();
    }
    // Something has the name that an old one gets while it is removed.
    fs::create_dir(checkpoints.at(1)).unwrap();
    fs::create_dir_all(super::folder::with_ending(&checkpoints.at(1), ".removed").join("taken")).unwrap();
    let error = new.finish(&manifest).unwrap_err();
    assert!(matches!(error, CheckpointError::NotRemoved(_)), "{error}");
    CheckpointReader::open(&checkpoints.at(5)).unwrap().verify().unwrap();
}

#[test]
fn an_earlier_checkpoint_is_taken_where_the_newest_is_damaged() {
    let (_home, checkpoints) = small();
    write(&checkpoints, 5, 40);
    fs::remove_file(checkpoints.at(5).join("rank-00001.safetensors")).unwrap();
    let mut refused = Vec::new();
    let found = checkpoints.newest_before(u64::MAX, &mut refused).unwrap().unwrap();
    assert_eq!(found.manifest().position.step, 3);
    assert!(refused[0].to_string().contains("rank-00001.safetensors: it is missing"), "{refused:?}");
    assert!(checkpoints.newest_before(3, &mut refused).unwrap().is_none());
}

/// Every bit of every file, and every length: the file is named, and nothing panics.
#[test]
fn no_damage_stays_unseen() {
    let (_home, checkpoints) = small();
    let folder = checkpoints.at(3);
    verify(&folder).unwrap();
    for name in names(&folder) {
        let path = folder.join(&name);
        let sound = fs::read(&path).unwrap();
        let is_manifest = name == Manifest::FILE;
        let refused = |bytes: &[u8], what: &str| {
            fs::write(&path, bytes).unwrap();
            let error = verify(&folder).expect_err(what).to_string();
            assert!(error.contains(&name), "{what}: {error}");
        };
        for at in 0..sound.len() {
            let mut broken = sound.clone();
            broken[at] ^= 1 << (at % 8);
            // White space between the manifest's words says nothing.
            if is_manifest
                && serde_json::from_slice::<serde_json::Value>(&broken).ok()
                    == serde_json::from_slice(&sound).ok()
            {
                continue;
            }
            refused(&broken, &format!("bit {} of byte {at} of {name}", at % 8));
        }
        for len in 0..sound.len() {
            refused(&sound[..len], &format!("{len} bytes of {name}"));
        }
        refused(&[&sound[..], b"\0"].concat(), &format!("a byte more than {name}"));
        fs::remove_file(&path).unwrap();
        let error = verify(&folder).unwrap_err().to_string();
        assert!(error.contains(&name), "{error}");
        fs::write(&path, sound).unwrap();
    }
    verify(&folder).unwrap();
}

#[test]
fn files_of_other_ranks_and_other_checkpoints_are_refused() {
    let (_home, checkpoints) = small();
    write(&checkpoints, 5, 41);
    let [first, second] = [3, 5].map(|step| checkpoints.at(step));
    let [a, b] = ["rank-00000.safetensors", "rank-00001.safetensors"].map(|name| first.join(name));
    let [of_a, of_b] = [&a, &b].map(|path| fs::read(path).unwrap());
    fs::write(&a, &of_b).unwrap();
    fs::write(&b, &of_a).unwrap();
    let error = verify(&first).unwrap_err().to_string();
    assert!(error.contains("rank-00000.safetensors: it has"), "{error}");
    fs::write(&a, &of_a).unwrap();
    fs::write(&b, fs::read(second.join("rank-00001.safetensors")).unwrap()).unwrap();
    assert!(verify(&first).is_err());
    fs::write(&b, &of_b).unwrap();
    fs::copy(second.join(Manifest::FILE), first.join(Manifest::FILE)).unwrap();
    assert!(verify(&first).is_err());
}

/// Each field of the manifest changed, removed or added: the message names it.
#[test]
fn a_changed_manifest_names_the_field() {
    let (_home, checkpoints) = small();
    let path = checkpoints.at(3).join(Manifest::FILE);
    let sound: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let fields: Vec<String> = sound.as_object().unwrap().keys().cloned().collect();
    let error_of = |changed: &serde_json::Value| {
        fs::write(&path, changed.to_string()).unwrap();
        verify(&checkpoints.at(3)).unwrap_err().to_string()
    };
    for field in fields {
        let mut changed = sound.clone();
        changed[&field] = serde_json::json!("another");
        assert!(error_of(&changed).contains(&format!("`{field}`")), "{}", error_of(&changed));
        let mut changed = sound.clone();
        changed.as_object_mut().unwrap().remove(&field);
        assert!(error_of(&changed).contains(&format!("`{field}`")), "{}", error_of(&changed));
    }
    let mut changed = sound.clone();
    changed["unknown"] = serde_json::json!(1);
    assert!(error_of(&changed).contains("`unknown`"), "{}", error_of(&changed));
    // A later version says so, whatever else it has.
    let mut later = sound.clone();
    later["version"] = serde_json::json!(2);
    later["checksums"]["version"] = serde_json::json!(super::blocks::checksum(b"2"));
    assert!(error_of(&later).contains("of version 2 of the format"), "{}", error_of(&later));
}

proptest! {
    /// Headers of any bytes: refused or read, and never more memory than their length.
    #[test]
    fn no_header_panics(bytes: Vec<u8>) {
        let _ = super::shard_header::ShardHeader::decode(&bytes);
    }

    #[test]
    fn names_of_pieces_are_read_back(kind in "[a-z_]+", name in "[a-z0-9._/]+", start: usize, len in 1..1000_usize) {
        let piece = Piece { kind, name, range: start.saturating_sub(len)..start.saturating_sub(len) + len };
        prop_assert_eq!(piece.to_string().parse(), Ok(piece));
    }

    #[test]
    fn no_name_of_a_piece_panics(text: String) {
        let _ = text.parse::<Piece>();
    }
}
