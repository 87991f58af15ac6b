//! A run's tokenizer, to be copied into its run directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pipezero_config::DataConfig;
use pipezero_files::input::{read_text, read_text_of_folder};
use pipezero_run::data::tokenizer_of;
use pipezero_tokens::Tokenizer;

use super::run_dir::RunDir;
use super::run_dir_error::RunDirError;

/// Bytes of a file beside a tokenizer, at most: published ones have up to a few hundred thousand.
const BESIDE_BYTES_MAX: u64 = 16 << 20;

/// A tokenizer and what transformers keeps beside it, in memory: they may lie in a run directory that is about to be replaced.
#[derive(Debug)]
pub struct CopiedTokenizer {
    /// The token by which it ends documents, which another file may say.
    end_token: Option<u32>,
    text: String,
    /// Files beside it, `None` where there is none.
    beside: Vec<(&'static str, Option<String>)>,
}

impl CopiedTokenizer {
    /// Reads the tokenizer of a run, if it has one.
    ///
    /// # Errors
    /// When it cannot be read, or a file beside it.
    pub fn of(data: &DataConfig) -> Result<Option<Self>, RunDirError> {
        let failed = |path: &Path, error: &dyn ToString| RunDirError::Io {
            path: path.to_owned(),
            source: io::Error::other(error.to_string()),
        };
        let path: &Path = data.tokenizer.as_deref().unwrap_or(Path::new(Tokenizer::FILE));
        let Some(tokenizer) = tokenizer_of(data).map_err(|error| failed(path, &error))? else {
            return Ok(None);
        };
        let path = tokenizer.path();
        let text = read_text(path, Tokenizer::BYTES_MAX).map_err(|error| failed(path, &error))?;
        let mut beside = Vec::new();
        for name in RunDir::BESIDE_TOKENIZER {
            let path: PathBuf = path.with_file_name(name);
            beside.push((
                name,
                match read_text_of_folder(&path, BESIDE_BYTES_MAX) {
                    Ok(text) => Some(text),
                    Err(error) if error.is_missing() => None,
                    Err(error) => return Err(failed(&path, &error)),
                },
            ));
        }
        Ok(Some(Self { end_token: tokenizer.end_token(), text, beside }))
    }

    /// Writes it into a run directory, in place of what an earlier start of the run has left there; the token by which it ends documents.
    pub(super) fn write_to(&self, run: &RunDir) -> Result<Option<u32>, RunDirError> {
        run.write(RunDir::TOKENIZER, &self.text)?;
        for (name, text) in &self.beside {
            match text {
                Some(text) => run.write(name, text)?,
                None => match fs::remove_file(run.file(name)) {
                    Err(source) if source.kind() != io::ErrorKind::NotFound => {
                        return Err(RunDirError::Io { path: run.file(name), source });
                    }
                    _ => {}
                },
            }
        }
        Ok(self.end_token)
    }
}
