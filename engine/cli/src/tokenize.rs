//! `pipezero tokenize`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::available_parallelism;
use std::time::Instant;

use clap::Args;
use indicatif::ProgressBar;
use pipezero_tokenize::{End, Fields, Finished, Form, Job, Options, Start, TokenizeError, Watch};
use pipezero_tokens::Written;

use super::failure::Failure;
use super::figures::{bytes, count, counted};
use super::output::{note, print};
use super::progress::{Pace, bar};
use super::run_args::{dated_template, json_as_text};
use super::signals::{Signalled, end_after_the_batch};
use super::terminal;
use super::whole::byte_size;

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  pipezero tokenize 'src/**/*.rs' --tokenizer tokenizer.json --out data/code
  pipezero tokenize stories.txt --separator '<|endoftext|>' \\
    --tokenizer gpt2 --out data/stories     # gpt2 has a tokenizer.json
  pipezero tokenize chats.jsonl --tokenizer tokenizer.json --out data/chats
  pipezero tokenize chats.jsonl --tokenizer tokenizer.json --out data/chats \\
    --resume                                # after Ctrl-C, SIGTERM or a crash

Then, in the run file: \"data\": {\"tokens\": \"data/stories\", \"tokenizer\": \"tokenizer.json\"}

A file of text is a document, or several with --separator. A .json, .jsonl or .ndjson file holds objects, one a line or in a list, and each is a \
document: {\"text\": \"...\"}; or {\"messages\": [{\"role\": \"user\", \"content\": \"...\"}, ...]}, which the tokenizer's chat template writes and of \
which what the assistant says carries loss; or {\"instruction\": \"...\", \"input\": \"...\", \"output\": \"...\"}, the same; or {\"prompt\": \"...\", \"completion\": \"...\"}, of which the completion alone carries loss, written by the chat template if the tokenizer has one; or {\"tokens\": [5, 7, \
9], \"mask\": [0, 1, 1]}, tokens of your own and which of them carry loss. Special tokens are added to text as the tokenizer.json says, and the end token after it.

PREFIX.bin and PREFIX.idx are the files that Megatron reads; a prompt is a sequence of mode 1 in them. The same inputs give the same files, however \
many threads there are and however often the work was interrupted.";

/// Arguments of `tokenize`.
#[derive(Debug, Args)]
pub(super) struct TokenizeArgs {
    /// Files, folders and globs: UTF-8 text, or objects in .json, .jsonl or .ndjson.
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// A tokenizer.json of Hugging Face's tokenizers, or a folder that holds one.
    #[arg(long, value_name = "FILE")]
    tokenizer: PathBuf,
    /// Path of the new files, without .bin and .idx.
    #[arg(long, value_name = "PREFIX", value_parser = prefix)]
    out: PathBuf,
    /// What stands between the documents of a text; \n, \t and \\ mean what they mean elsewhere. Without it, a file is one document.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, value_parser = separator)]
    separator: Option<String>,
    /// The field of an object in JSON that is a document.
    #[arg(long, value_name = "NAME", default_value = "text")]
    text_field: String,
    /// The field that is a document's beginning, which carries no loss.
    #[arg(long, value_name = "NAME", default_value = "prompt")]
    prompt_field: String,
    /// The field that is the rest of a document.
    #[arg(long, value_name = "NAME", default_value = "completion")]
    completion_field: String,
    /// Leave out the tokenizer's chat template: a prompt and its completion are texts as they are, and other conversations are refused.
    #[arg(long)]
    no_chat_template: bool,
    /// The token that ends a document [default: what tokenizer_config.json or the names of published models say]
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    end_token: Option<String>,
    /// Write no token after a document.
    #[arg(long, conflicts_with = "end_token")]
    no_end_token: bool,
    /// Threads that tokenize [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Keep what has been done, for --resume, after so many bytes of text.
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = byte_size)]
    save_every: u64,
    /// Go on with work that was interrupted.
    #[arg(long)]
    resume: bool,
    /// Replace files that are there.
    #[arg(long, conflicts_with = "resume")]
    overwrite: bool,
}

/// A path without the endings that are added to it.
fn prefix(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if text.ends_with('/') || path.file_name().is_none() {
        return Err("it is a folder; write a name in it, such as data/stories".to_owned());
    }
    if path.extension().is_some_and(|ending| ending == "bin" || ending == "idx") {
        return Err("write it without .bin and .idx, which are added, such as data/stories".to_owned());
    }
    Ok(path)
}

/// A separator as it is meant.
fn separator(text: &str) -> Result<String, String> {
    let mut meant = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        meant.push(match character {
            '\\' => match characters.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('\\') => '\\',
                _ => return Err("behind a \\ stands n, t or another \\".to_owned()),
            },
            character => character,
        });
    }
    if meant.is_empty() {
        Err("it must have at least one character, such as \\n\\n".to_owned())
    } else {
        Ok(meant)
    }
}

impl TokenizeArgs {
    fn options(&self) -> Options {
        let cores = || available_parallelism().map_or(1, usize::from);
        Options {
            inputs: self.inputs.clone(),
            tokenizer: self.tokenizer.clone(),
            end: match &self.end_token {
                Some(name) => End::Named(name.clone()),
                None if self.no_end_token => End::None,
                None => End::Known,
            },
            prefix: self.out.clone(),
            form: Form {
                separator: self.separator.clone(),
                fields: Fields {
                    text: self.text_field.clone(),
                    prompt: self.prompt_field.clone(),
                    completion: self.completion_field.clone(),
                },
                chat_template: !self.no_chat_template,
            },
            num_threads: self.threads.map_or_else(cores, usize::from),
            save_every: self.save_every,
            start: match (self.resume, self.overwrite) {
                (true, _) => Start::Resume,
                (false, true) => Start::Overwrite,
                (false, false) => Start::New,
            },
        }
    }
}

pub(super) fn run(args: &TokenizeArgs) -> Result<(), Failure> {
    let options = args.options();
    let num_threads = options.num_threads;
    let job = Job::new(options)?;
    let signalled = end_after_the_batch();
    note(format_args!(
        "{}, {}, on {}; documents end with {}",
        counted(job.num_files(), "file"),
        bytes(job.total_bytes()),
        counted(num_threads, "thread"),
        job.end_token().map_or_else(|| "no token".to_owned(), |token| format!("\"{token}\"")),
    ));
    if job.num_repeats() > 0 {
        note(format_args!("{} named again; each file is read once", counted(job.num_repeats(), "file")));
    }
    if job.resumed_bytes() > 0 {
        note(format_args!("{} were done before", bytes(job.resumed_bytes())));
    }
    if let Some(path) = job.json_as_text() {
        note(format_args!("warning: {}", json_as_text(path)));
    }
    let template = job.chat_template().map(|template| (template.path().to_owned(), template.asks_for_date()));
    let vocab_size = job.vocab_size();
    let mut shown = Shown::new(job.total_bytes(), job.resumed_bytes(), Arc::clone(&signalled));
    let ended = job.run(&mut shown);
    signalled.end();
    shown.end();
    let finished = match ended {
        Err(TokenizeError::Stopped { num_bytes, total_bytes }) => {
            let done = format!("{} of {}", bytes(num_bytes), bytes(total_bytes));
            note(format_args!("stopped after {done}; go on with --resume"));
            return Err(Failure::Signalled(signalled.first()));
        }
        ended => ended?,
    };
    print(report(&finished))?;
    if finished.num_conversations > 0 {
        let by = match &template {
            Some((path, _)) => format!("the chat template `{}` wrote the conversations", path.display()),
            None => "no chat template was used: prompts and completions are tokenized as they are".to_owned(),
        };
        note(format_args!(
            "{by}; a run on them attends within documents, unless its `data.document_attention` is false"
        ));
    }
    if let Some((path, true)) = template.filter(|_| finished.num_conversations > 0) {
        note(format_args!("warning: {}", dated_template(&path)));
    }
    note(format_args!(
        "in a run file, where paths start at its folder: \"data\": {{\"tokens\": \"{}\", \"tokenizer\": \"{}\"}}, and \"model\": \
         {{\"vocab_size\": {vocab_size}}} or more",
        args.out.display(),
        args.tokenizer.display(),
    ));
    Ok(())
}

fn report(finished: &Finished) -> String {
    let Finished { written, num_conversations, num_bytes, token_type, bin, idx } = finished;
    let Written { num_tokens, num_documents, num_unscored, .. } = written;
    let masked = match num_unscored {
        0 => String::new(),
        _ => format!("; {num_unscored} parts of documents carry no loss"),
    };
    let conversations = match num_conversations {
        0 => String::new(),
        _ => format!(" ({num_conversations} of them conversations)"),
    };
    format!(
        "{num_tokens} tokens of {token_type} in {num_documents} documents{conversations}, {:.2} bytes of input for each token{masked}\nwritten: {} and {}\n",
        *num_bytes as f64 / *num_tokens as f64,
        bin.display(),
        idx.display(),
    )
}

/// Shows how far the work is: a bar on a terminal, plain lines otherwise.
struct Shown {
    bar: Option<ProgressBar>,
    total: u64,
    /// Bytes that this process did not have to do.
    before: u64,
    begun: Instant,
    pace: Pace,
    signalled: Arc<Signalled>,
}

impl Shown {
    fn new(total: u64, before: u64, signalled: Arc<Signalled>) -> Self {
        let bar = bar(total, "{bar:20} {binary_bytes}/{binary_total_bytes}  {msg}  ETA {eta}");
        Self { bar, total, before, begun: Instant::now(), pace: Pace::later(), signalled }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Watch for Shown {
    fn progress(&mut self, num_bytes: u64, written: Written) {
        let rate = (num_bytes - self.before) as f64 / self.begun.elapsed().as_secs_f64().max(1e-9);
        let figures = format!("{} tokens  {}/s", count(written.num_tokens), bytes(rate as u64));
        if let Some(bar) = &self.bar {
            bar.set_position(num_bytes);
            bar.set_message(figures);
        } else if self.pace.is_line_due() {
            let left = (self.total.saturating_sub(num_bytes)) as f64 / rate.max(1.0);
            let done = format!("{} of {}", bytes(num_bytes), bytes(self.total));
            note(terminal::fitted(&format!("{done}  {figures}  ETA {left:.0} s")));
        }
    }

    fn is_to_stop(&self) -> bool {
        self.signalled.interrupted.load(Ordering::Acquire)
    }
}

impl From<TokenizeError> for Failure {
    fn from(error: TokenizeError) -> Self {
        if error.is_of_input() { Self::Input(Box::new(error)) } else { Self::Other(Box::new(error)) }
    }
}
