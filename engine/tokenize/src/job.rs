//! All of the work, from inputs to index.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::slice;

use pipezero_files::records::{begins_as_json, is_json};
use pipezero_tokens::chat::{ChatTemplate, Date};
use pipezero_tokens::documents::{DocumentMaker, Fields};
use pipezero_tokens::text::find_all;
use pipezero_tokens::{DocumentWriter, MadeBy, TextCodec, TokenType, Tokenizer, Written};

use super::error::TokenizeError;
use super::options::{End, Form, Options, Start};
use super::outputs::Outputs;
use super::reader::{Place, Reader};
use super::state::{BegunWith, Input, State};
use super::workers::{Tokens, tokenize};

/// What is told while the work goes on.
pub trait Watch {
    /// So many of the inputs' bytes have become so many tokens.
    fn progress(&mut self, num_bytes: u64, written: Written);

    /// Whether the work is to stop here, to go on later.
    fn is_to_stop(&self) -> bool {
        false
    }
}

/// Work that can be done.
#[derive(Debug)]
pub struct Job {
    options: Options,
    maker: DocumentMaker,
    files: Vec<PathBuf>,
    num_repeats: usize,
    outputs: Outputs,
    /// The list of sequences, which is held against other processes.
    lock: File,
    state: State,
    total_bytes: u64,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Tokens and documents.
    pub written: Written,
    /// Documents in which someone answers.
    pub num_conversations: u64,
    /// Bytes of the inputs.
    pub num_bytes: u64,
    /// How tokens are stored.
    pub token_type: TokenType,
    /// The tokens.
    pub bin: PathBuf,
    /// Their index.
    pub idx: PathBuf,
}

impl Job {
    /// Finds the inputs, reads the tokenizer, and looks at what there is of the outputs.
    ///
    /// # Errors
    /// See [`TokenizeError`].
    pub fn new(options: Options) -> Result<Self, TokenizeError> {
        let outputs = Outputs::of(&options.prefix);
        // Work that goes on another day ends with the files of the day on which it was begun.
        let begun = (options.start == Start::Resume).then(|| State::read(&outputs.state).ok()).flatten();
        let date = begun.map_or_else(Date::now, |state| state.date);
        let maker = maker(&options, date)?;
        let (files, num_repeats) = files(&options.inputs, &outputs)?;
        check_use(&options.form, &files)?;
        let inputs = files.iter().map(|path| Input::of(path)).collect::<Result<Vec<_>, _>>()?;
        let total_bytes = inputs.iter().map(|input| input.stamp.num_bytes).sum();
        let start = outputs.check(options.start)?;
        let lock = outputs.lock()?;
        let begun_with = BegunWith {
            inputs,
            tokenizer_checksum: tokenizer_of(&maker).checksum(),
            end_token: maker.end_token(),
            form: options.form.clone(),
        };
        let state = match start {
            Start::Resume => {
                let state = State::read(&outputs.state)?;
                state.begun_with.check(&begun_with, state.next, &outputs.state)?;
                State { begun_with, ..state }
            }
            Start::New | Start::Overwrite => State {
                version: State::VERSION,
                date,
                begun_with,
                next: Place::default(),
                num_bytes: 0,
                written: Written::default(),
                num_conversations: 0,
            },
        };
        Ok(Self { options, maker, files, num_repeats, outputs, lock, state, total_bytes })
    }

    /// Bytes of all inputs.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Bytes of the inputs that were done before.
    pub fn resumed_bytes(&self) -> u64 {
        self.state.num_bytes
    }

    /// The first of the inputs that begins as JSON does and is read as text, as its name says.
    pub fn json_as_text(&self) -> Option<&Path> {
        self.files.iter().map(PathBuf::as_path).find(|path| begins_as_json(path))
    }

    /// Files of the inputs.
    pub fn num_files(&self) -> usize {
        self.files.len()
    }

    /// How often the inputs name a file again, which is read once.
    pub fn num_repeats(&self) -> usize {
        self.num_repeats
    }

    /// One more than the largest token.
    pub fn vocab_size(&self) -> usize {
        self.maker.vocab_size()
    }

    /// The template that makes texts of conversations, if the tokenizer has one that is used.
    pub fn chat_template(&self) -> Option<&ChatTemplate> {
        self.maker.chat_template()
    }

    /// How the token that ends documents is written; `None` where none is.
    pub fn end_token(&self) -> Option<String> {
        self.maker.end_token().and_then(|token| tokenizer_of(&self.maker).name_of(token))
    }

    /// Does what is left of the work.
    ///
    /// # Errors
    /// When a file cannot be read or written, an input is no text or no document, or [`Watch::is_to_stop`] says so. What has been done is kept.
    pub fn run(mut self, watch: &mut dyn Watch) -> Result<Finished, TokenizeError> {
        let token_type = TokenType::of_vocabulary(self.maker.vocab_size());
        let is_done = self.state.next.file == self.files.len();
        let [bin, sequences] = self.outputs.open(self.lock, self.state.written, token_type, is_done)?;
        self.state.write(&self.outputs.state)?;
        let mut writer = DocumentWriter::new(token_type, bin, sequences, self.state.written);
        let separator = self.options.form.separator.clone();
        let (state, outputs, save_every) = (&mut self.state, &self.outputs, self.options.save_every);
        let (begun_at, total_bytes) = ((state.next, state.num_bytes), self.total_bytes);
        let is_to_stop = || watch.is_to_stop();
        let reader = Reader::new(&self.files, separator.as_deref(), begun_at.0, begun_at.1, &is_to_stop)?;
        let Some(reader) = reader else {
            return Err(TokenizeError::Stopped { num_bytes: begun_at.1, total_bytes });
        };
        let written_to = TokenizeError::io(&outputs.partial);
        let mut reached = begun_at;
        let done = tokenize(reader, &self.maker, self.options.num_threads, |tokens| {
            let Tokens { documents, next, num_bytes } = tokens;
            for document in &documents {
                let parts = document.parts.iter().map(|(tokens, has_loss)| (&tokens[..], *has_loss));
                writer.document(parts).map_err(&written_to)?;
                state.num_conversations += u64::from(document.is_conversation);
            }
            reached = (next, num_bytes);
            let stops = watch.is_to_stop() && num_bytes < total_bytes;
            if stops || num_bytes - state.num_bytes >= save_every {
                state.keep(reached, &mut writer, outputs)?;
            }
            watch.progress(num_bytes, writer.written());
            if stops { Err(TokenizeError::Stopped { num_bytes, total_bytes }) } else { Ok(()) }
        });
        match done {
            Err(error @ (TokenizeError::Document { .. } | TokenizeError::Io { .. })) if reached.1 > 0 => {
                // Where nothing can be written any more, what was kept before is what is left.
                return Err(match state.keep(reached, &mut writer, outputs) {
                    Ok(()) => TokenizeError::Kept { error: Box::new(error) },
                    Err(_) => error,
                });
            }
            Err(error @ TokenizeError::Document { .. }) => {
                outputs.remove_begun();
                return Err(error);
            }
            done => done?,
        }
        if writer.written().num_tokens == 0 {
            outputs.remove_begun();
            return Err(TokenizeError::Nothing { num_files: self.files.len() });
        }
        let end = Place { file: self.files.len(), ..Place::default() };
        state.keep((end, total_bytes), &mut writer, outputs)?;
        let num_conversations = state.num_conversations;
        let (tokenizer, num_tokens) = (tokenizer_of(&self.maker), state.written.num_tokens);
        let checksum = tokenizer.content_checksum();
        let made_by = MadeBy::new(tokenizer.path(), checksum, num_tokens, num_conversations > 0);
        outputs.finish(state.written, token_type, &made_by)?;
        let written = state.written;
        let (bin, idx) = (outputs.bin.clone(), outputs.idx.clone());
        Ok(Finished { written, num_conversations, num_bytes: self.total_bytes, token_type, bin, idx })
    }
}

fn maker(options: &Options, date: Date) -> Result<DocumentMaker, TokenizeError> {
    let name = if let End::Named(name) = &options.end { Some(name.as_str()) } else { None };
    let tokenizer = Tokenizer::load(&options.tokenizer, name)?;
    let end_token = match options.end {
        End::None => None,
        End::Named(_) | End::Known => match tokenizer.end_token() {
            None => return Err(TokenizeError::NoEndToken(tokenizer.path().to_owned())),
            known => known,
        },
    };
    let codec = TextCodec::Tokenizer(Box::new(tokenizer));
    let date = options.form.chat_template.then_some(date);
    Ok(DocumentMaker::new(codec, end_token, options.form.fields.clone(), date))
}

fn tokenizer_of(maker: &DocumentMaker) -> &Tokenizer {
    maker.tokenizer().expect("texts are tokenized by a tokenizer alone")
}

/// The files of the inputs, each once, and without the files that are written, which may lie in a folder of inputs; and how often a file was
/// named again.
fn files(inputs: &[PathBuf], outputs: &Outputs) -> Result<(Vec<PathBuf>, usize), TokenizeError> {
    let mut named = Vec::new();
    for input in inputs {
        named.extend(find_all(slice::from_ref(input))?);
    }
    let is_input = |path: &PathBuf| !outputs.has(path);
    let num_named = named.iter().filter(|path| is_input(path)).count();
    let mut files = find_all(&named)?;
    files.retain(is_input);
    let own = inputs.iter().find(|input| !is_input(input)).or(named.first().filter(|_| files.is_empty()));
    if let Some(own) = own {
        return Err(TokenizeError::OwnFile(own.clone()));
    }
    let num_repeats = num_named - files.len();
    Ok((files, num_repeats))
}

/// Refuses options that no input has a use for.
fn check_use(form: &Form, files: &[PathBuf]) -> Result<(), TokenizeError> {
    let num_files = files.len();
    let num_json = files.iter().filter(|path| is_json(path)).count();
    if form.separator.is_some() && num_files > 0 && num_json == num_files {
        return Err(TokenizeError::NoText { num_files });
    }
    let usual = Fields::default();
    let fields = [
        ("--text-field", form.fields.text != usual.text),
        ("--prompt-field", form.fields.prompt != usual.prompt),
        ("--completion-field", form.fields.completion != usual.completion),
    ];
    match fields.into_iter().find(|(_, is_named)| *is_named) {
        Some((option, _)) if num_json == 0 => Err(TokenizeError::NoJson { option, num_files }),
        _ => Ok(()),
    }
}
