//! From what was read to the parts of a document: text, or JSON with text, with a conversation, with a prompt and its completion, or with tokens and
//! a mask.

use pipezero_files::records::{INSTRUCTION, Layout, OUTPUT, RECORD_BYTES_MAX, RecordFault};
use serde_json::{Map, Value};

use super::fault::DocumentFault;
use super::fields::Fields;
use super::forms::{MASK, ObjectForm, TOKENS, type_of};
use crate::chat::{ChatFault, ChatTemplate, Conversation, Date, Targets};
use crate::{TextCodec, Tokenizer};

/// Tokens, and whether they carry loss.
pub type Part = (Vec<u32>, bool);

/// A document: its tokens, in parts of which each carries loss or does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// Its parts, in order.
    pub parts: Vec<Part>,
    /// Whether someone answers in it: then it has nothing to do with the documents beside it.
    pub is_conversation: bool,
}

/// Makes documents of what a file of training data holds.
#[derive(Debug)]
pub struct DocumentMaker {
    codec: TextCodec,
    end_token: Option<u32>,
    vocab_size: usize,
    fields: Fields,
    /// What makes texts of conversations, or why nothing does.
    chat: Result<ChatTemplate, ChatFault>,
}

impl DocumentMaker {
    /// Makes tokens by a codec, and reads these fields of an object. `end_token` follows each document of text, if there is one. `chat_date` is the date
    /// for the tokenizer's chat template, which is left out without one.
    pub fn new(codec: TextCodec, end_token: Option<u32>, fields: Fields, chat_date: Option<Date>) -> Self {
        let chat = match (codec.tokenizer(), chat_date) {
            (None, _) => Err(ChatFault::NoTokenizer),
            (Some(_), None) => Err(ChatFault::LeftOut),
            (Some(tokenizer), Some(date)) => ChatTemplate::of_tokenizer(tokenizer.path(), date)
                .and_then(|found| found.ok_or_else(|| ChatFault::NoTemplate(tokenizer.path().to_owned()))),
        };
        Self { vocab_size: codec.vocab_size(), codec, end_token, fields, chat }
    }

    /// The template that makes texts of conversations, if there is one.
    pub fn chat_template(&self) -> Option<&ChatTemplate> {
        self.chat.as_ref().ok()
    }

    /// What makes tokens of text.
    pub fn codec(&self) -> &TextCodec {
        &self.codec
    }

    /// The tokenizer, if text is not read as bytes.
    pub fn tokenizer(&self) -> Option<&Tokenizer> {
        self.codec.tokenizer()
    }

    /// The token that ends a document, if one does.
    pub fn end_token(&self) -> Option<u32> {
        self.end_token
    }

    /// One more than the largest token.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// The document of a record of a file.
    ///
    /// # Errors
    /// When it is no document, or the tokenizer fails at it.
    pub fn document(&self, layout: &Layout, record: &str) -> Result<Document, DocumentFault> {
        if !layout.is_json() {
            return self.of_text(record);
        }
        let value = serde_json::from_str(record).map_err(|error| DocumentFault::Json {
            line: error.line(),
            column: error.column(),
            reason: reason_of(&error),
            is_line: *layout == Layout::Lines,
        })?;
        match value {
            Value::Object(fields) => self.of_object(&fields),
            Value::String(text) if *layout == Layout::List => self.of_text(&text),
            other => Err(DocumentFault::NoObject { kind: type_of(&other) }),
        }
    }

    /// The document of a piece of text.
    fn of_text(&self, text: &str) -> Result<Document, DocumentFault> {
        let tokens = self.codec.encode(text)?;
        Ok(Document { parts: self.ended(vec![(tokens, true)]), is_conversation: false })
    }

    fn of_object(&self, fields: &Map<String, Value>) -> Result<Document, DocumentFault> {
        let Fields { text: text_field, prompt: prompt_field, completion: completion_field } = &self.fields;
        match self.fields.form_of(fields)? {
            Some(ObjectForm::Text(text)) => self.of_text(string(text_field, text)?),
            Some(ObjectForm::Pair { prompt, completion }) => {
                let are_texts = prompt.is_string() && completion.is_string();
                let is_list = |value: &Value| value.is_array();
                if !are_texts && !is_list(prompt) && !is_list(completion) {
                    string(prompt_field, prompt)?;
                    string(completion_field, completion)?;
                }
                match (&self.chat, prompt.as_str(), completion.as_str()) {
                    (Err(fault), Some(prompt), Some(completion)) if fault.is_absence() => {
                        self.of_texts(prompt, completion)
                    }
                    _ => {
                        let names = [prompt_field.as_str(), completion_field];
                        let tools = tools_of(fields)?;
                        self.of_conversation(&Conversation::of_pair(names, prompt, completion, tools)?)
                    }
                }
            }
            Some(ObjectForm::Messages { field, messages }) => {
                self.of_conversation(&Conversation::of_messages(field, messages, tools_of(fields)?)?)
            }
            Some(ObjectForm::Instruction { instruction, output }) => {
                let optional = |name: &str| match fields.get(name) {
                    None | Some(Value::Null) => Ok(None),
                    Some(value) => string(name, value).map(Some),
                };
                self.of_conversation(&Conversation::of_instruction(
                    optional("system")?,
                    string(INSTRUCTION, instruction)?,
                    optional("input")?,
                    string(OUTPUT, output)?,
                ))
            }
            Some(ObjectForm::Tokens) => self.of_tokens(fields),
            None => Err(self.fields.no_form(fields)),
        }
    }

    /// A prompt and its completion as they are.
    fn of_texts(&self, prompt: &str, completion: &str) -> Result<Document, DocumentFault> {
        // A post-processor may end each text; this one goes on.
        let before = self.codec.prompt(prompt)?;
        let after = self.codec.encode_rest(completion)?;
        Ok(Document { parts: self.ended(vec![(before, false), (after, true)]), is_conversation: true })
    }

    /// A conversation as the chat template writes it, with all the special tokens that it is to have.
    fn of_conversation(&self, conversation: &Conversation) -> Result<Document, DocumentFault> {
        let template = self.chat.as_ref().map_err(Clone::clone)?;
        let tokenizer = self.codec.tokenizer().ok_or(ChatFault::NoTokenizer)?;
        let Targets { text, spoken } = template.apply(conversation)?;
        if text.len() > RECORD_BYTES_MAX {
            return Err(RecordFault::LongEntry.into());
        }
        let mut parts = Vec::new();
        let mut spoken = spoken.into_iter().peekable();
        for (token, place) in tokenizer.encode_with_places(&text)? {
            // A token that reaches into what the assistant says is learned, as transformers' mask has it.
            while spoken.next_if(|part| place.start >= part.end).is_some() {}
            append(&mut parts, token, spoken.peek().is_some_and(|part| place.end > part.start));
        }
        Ok(Document { parts, is_conversation: true })
    }

    /// Tokens that someone else made are taken as they are.
    fn of_tokens(&self, fields: &Map<String, Value>) -> Result<Document, DocumentFault> {
        let list = |name: &str| match &fields[name] {
            Value::Array(list) => Ok(list),
            other => Err(DocumentFault::NoList { name: name.to_owned(), kind: type_of(other) }),
        };
        let tokens = list(TOKENS)?;
        let has_mask = fields.get(MASK).is_some_and(|mask| !mask.is_null());
        let mask = if has_mask { Some(list(MASK)?) } else { None };
        if let Some(mask) = mask.filter(|mask| mask.len() != tokens.len()) {
            let (num_entries, num_tokens) = (mask.len(), tokens.len());
            return Err(DocumentFault::MaskLength { num_entries, num_tokens });
        }
        let mut parts = Vec::new();
        for (position, token) in tokens.iter().enumerate() {
            let known = token.as_u64().filter(|&token| token < self.vocab_size as u64);
            let known = known.ok_or_else(|| DocumentFault::UnknownToken {
                entry: token.to_string(),
                position,
                vocab_size: self.vocab_size,
            })?;
            let has_loss = match mask.map(|mask| &mask[position]) {
                None => true,
                Some(Value::Bool(has_loss)) => *has_loss,
                Some(entry) => match entry.as_u64() {
                    Some(entry @ 0..=1) => entry == 1,
                    _ => return Err(DocumentFault::MaskEntry { entry: entry.to_string(), position }),
                },
            };
            append(&mut parts, known as u32, has_loss);
        }
        Ok(Document { parts, is_conversation: false })
    }

    /// The parts with the token that ends a document, unless they end with it.
    fn ended(&self, mut parts: Vec<Part>) -> Vec<Part> {
        let is_empty = parts.iter().all(|(tokens, _)| tokens.is_empty());
        if let (Some(end), Some((tokens, _)), false) = (self.end_token, parts.last_mut(), is_empty)
            && tokens.last() != Some(&end)
        {
            tokens.push(end);
        }
        parts
    }
}

/// Appends a token to the last part, or begins one.
fn append(parts: &mut Vec<Part>, token: u32, has_loss: bool) {
    match parts.last_mut().filter(|(_, last)| *last == has_loss) {
        Some((tokens, _)) => tokens.push(token),
        None => parts.push((vec![token], has_loss)),
    }
}

/// What the assistant may call.
fn tools_of(fields: &Map<String, Value>) -> Result<Option<&Value>, DocumentFault> {
    const TOOLS: &str = "tools";
    match fields.get(TOOLS) {
        None | Some(Value::Null) => Ok(None),
        Some(tools @ Value::Array(_)) => Ok(Some(tools)),
        Some(other) => Err(DocumentFault::NoList { name: TOOLS.to_owned(), kind: type_of(other) }),
    }
}

/// A field that must be a string.
fn string<'a>(name: &str, value: &'a Value) -> Result<&'a str, DocumentFault> {
    let fault = || DocumentFault::NoString { name: name.to_owned(), kind: type_of(value) };
    value.as_str().ok_or_else(fault)
}

/// What serde_json says, without the place, which is said beside the file's name.
fn reason_of(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(reason, _)| reason.to_owned())
}
