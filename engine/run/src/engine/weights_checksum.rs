//! A checksum by which a run knows weights again that it reads, such as those of a teacher.
//!
//! A checksum of all bytes would have to read them once more, in one process, which takes minutes for a large model. So a few blocks of each tensor are read. Training changes
//! nearly every element of the tensors that it trains, so those blocks show it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use pipezero_config::model_sizes::sizes_of_weights;
use pipezero_files::opened::open_regular;
use pipezero_files::safetensors::{Header, HeaderError};
use pipezero_plan::Plan;
use xxhash_rust::xxh3::Xxh3;

use super::error::EngineError;
use super::initial_state::InitialState;
use super::weights_error::WeightsError;
use super::weights_file::{Wanted, WeightsFile};

/// Blocks of a tensor, at most, that are read.
const BLOCKS: u64 = 4;
/// Bytes of a block.
const BLOCK_BYTES: u64 = 4096;

impl InitialState {
    /// A checksum of weights to read and of what the model computes with them: of names, types and shapes, and of four blocks of 4 KiB of each tensor, evenly spaced; of a
    /// checkpoint the checksums that it has itself. `None` of weights that are drawn.
    ///
    /// # Errors
    /// When files are damaged or cannot be read.
    pub fn weights_checksum(&self, plan: &Plan) -> Result<Option<u64>, EngineError> {
        let mut checksum = Xxh3::new();
        checksum.update(format!("{:?}", sizes_of_weights(&plan.run().model)).as_bytes());
        match self {
            Self::Drawn => return Ok(None),
            Self::Weights(path) => {
                for path in WeightsFile::open(plan, path, Wanted::AllButNew)?.paths() {
                    add_file(&mut checksum, path)?;
                }
            }
            Self::Parameters(from) | Self::Checkpoint(from) => {
                // A file's header has the checksums of all that is behind it.
                for file in &from.manifest().files {
                    checksum.update(file.header_checksum.as_bytes());
                }
            }
        }
        Ok(Some(checksum.digest()))
    }
}

/// Adds the header of a safetensors file and blocks of its tensors.
fn add_file(checksum: &mut Xxh3, path: &Path) -> Result<(), WeightsError> {
    let header = Header::read(path).map_err(|error| match error {
        HeaderError::Io(source) => WeightsError::io(path)(source),
        HeaderError::Damaged(reason) => WeightsError::Damaged { path: path.to_owned(), reason },
    })?;
    let tensors = header.metadata.tensors();
    let mut tensors: Vec<_> = tensors.iter().collect();
    tensors.sort_unstable_by_key(|(name, _)| *name);
    let read = || -> io::Result<()> {
        let file = open_regular(path)?;
        for (name, info) in tensors {
            checksum.update(format!("{name} {:?} {:?}", info.dtype, info.shape).as_bytes());
            let (start, end) = info.data_offsets;
            add_blocks(checksum, &file, header.data_start + start as u64, (end - start) as u64)?;
        }
        Ok(())
    };
    read().map_err(WeightsError::io(path))
}

fn add_blocks(checksum: &mut Xxh3, file: &File, start: u64, num_bytes: u64) -> io::Result<()> {
    let num_blocks = num_bytes.div_ceil(BLOCK_BYTES).min(BLOCKS);
    for number in 0..num_blocks {
        // The first block begins with the tensor, and the last one ends with it.
        let room = num_bytes.saturating_sub(BLOCK_BYTES);
        let at = if num_blocks == 1 {
            0
        } else {
            (u128::from(room) * u128::from(number) / u128::from(num_blocks - 1)) as u64
        };
        let mut block = vec![0; BLOCK_BYTES.min(num_bytes) as usize];
        file.read_exact_at(&mut block, start + at)?;
        checksum.update(&block);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use pipezero_files::safetensors::f32_header;

    use super::*;

    /// The checksum of a file with a tensor of 3 KiB and one of 100 KiB, in which the byte at this place is another.
    fn checksum(names: [&str; 2], changed: Option<usize>) -> u64 {
        let shapes = [vec![768], vec![100, 256]];
        let parameters = names.into_iter().zip(shapes.iter().map(Vec::as_slice));
        let mut bytes = f32_header(parameters).unwrap();
        let data_start = bytes.len();
        bytes.resize(data_start + 4 * (768 + 25_600), 1);
        if let Some(changed) = changed {
            bytes[data_start + changed] = 2;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights.safetensors");
        fs::write(&path, bytes).unwrap();
        let mut checksum = Xxh3::new();
        add_file(&mut checksum, &path).unwrap();
        checksum.digest()
    }

    #[test]
    fn other_weights_have_another_checksum() {
        let first = checksum(["a", "b"], None);
        assert_eq!(first, checksum(["a", "b"], None));
        assert_ne!(first, checksum(["a", "c"], None));
        // Every byte of a tensor that is not larger than a block, and of the blocks of another its beginning, its end and some between.
        let small = 4 * 768;
        let large = small + 4 * 25_600;
        for changed in [0, 1, small / 2, small - 1, small, small + 4095, large - 4096, large - 1] {
            assert_ne!(first, checksum(["a", "b"], Some(changed)), "{changed}");
        }
        let num_seen =
            (small..large).step_by(4096).filter(|&at| first != checksum(["a", "b"], Some(at))).count();
        assert!(num_seen >= 4, "{num_seen}");
    }
}
