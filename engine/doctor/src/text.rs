//! Whether this process can read the run's text.

use pipezero_plan::{Bytes, Plan};
use pipezero_run::data::text_bytes;
use pipezero_train::training_batches;

/// A text of more bytes is found and opened, and not read: reading it would take longer than the rest.
const READ_BYTES_MAX: u64 = 256 << 20;

/// What this process can read; or what is wrong.
pub(super) fn text(plan: &Plan) -> Result<String, String> {
    let data = &plan.run().data;
    if !plan.run().model.learns() {
        return Ok("the model reads none".to_owned());
    }
    if data.text.is_empty() {
        // Files of tokens are opened, and of them the batches of a step are read.
        training_batches(plan).map_err(|error| error.to_string())?;
        return Ok(format!("files of tokens that were opened: {}", data.files.tokens.len()));
    }
    let bytes = text_bytes(&data.text).map_err(|error| error.to_string())?;
    if bytes > READ_BYTES_MAX {
        return Ok(format!("{} were found", Bytes(bytes)));
    }
    training_batches(plan).map_err(|error| error.to_string())?;
    Ok(format!("{} were read", Bytes(bytes)))
}
