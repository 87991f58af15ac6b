//! Writes the weights to one safetensors file, unit by unit.
//!
//! The header follows from the plan alone, so units stream behind it in chain order and the whole model is never in
//! one place.

use std::collections::HashMap;
use std::io::{BufWriter, Write};
use std::path::Path;

use safetensors::tensor::{Dtype, Metadata, TensorInfo};

use super::command::Command;
use super::error::EngineError;
use super::ranks::Ranks;
use super::weights_file::{WeightsError, parameters};
use crate::files::partial::{Existing, PartialFile};
use crate::plan::Plan;

/// Writes all weights. After a failure there is no half file, and an earlier file is as it was.
pub(super) fn save(plan: &Plan, ranks: &mut Ranks, path: &Path) -> Result<(), EngineError> {
    let io = WeightsError::io(path);
    let mut whole = PartialFile::create(path, Existing::Replaced).map_err(&io)?;
    let mut file = BufWriter::new(whole.file());
    write_header(plan, &mut file).map_err(&io)?;
    for (id, planned) in plan.owned_units() {
        let values = ranks.ask_for_values(&Command::WholeUnit(id))?;
        for entry in planned.unit.entries() {
            for value in &values[entry.range.clone()] {
                file.write_all(&value.to_le_bytes()).map_err(&io)?;
            }
        }
    }
    file.into_inner().map_err(|error| io(error.into_error()))?.sync_all().map_err(&io)?;
    Ok(whole.finish().map_err(&io)?)
}

fn write_header(plan: &Plan, file: &mut impl Write) -> std::io::Result<()> {
    let mut end = 0;
    let tensors = parameters(plan).map(|entry| {
        let start = end;
        end += 4 * entry.range.len();
        let shape = entry.spec.shape.clone();
        (entry.spec.name.clone(), TensorInfo { dtype: Dtype::F32, shape, data_offsets: (start, end) })
    });
    // PyTorch's readers look for this key.
    let about = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let metadata = Metadata::new(Some(about), tensors.collect()).map_err(std::io::Error::other)?;
    let mut header = serde_json::to_vec(&metadata)?;
    // The format wants the tensors to start at a multiple of 8 bytes; spaces may follow the header.
    header.resize(header.len().next_multiple_of(8), b' ');
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(&header)
}
