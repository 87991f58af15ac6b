//! Why a conversation has no text.

use std::path::PathBuf;

/// Why a conversation has no text, and a repair.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChatFault {
    /// Tokens are bytes.
    #[error(
        "it is a conversation, and text is read as bytes, which have no chat template; name a tokenizer that has one as `data.tokenizer`"
    )]
    NoTokenizer,
    /// The tokenizer has no template.
    #[error(
        "it is a conversation, and the tokenizer `{}` has no chat template; put the model's chat_template.jinja beside it, or its \
         tokenizer_config.json with a `chat_template`",
        .0.display()
    )]
    NoTemplate(PathBuf),
    /// A template was left out on purpose.
    #[error(
        "it is a conversation, and --no-chat-template leaves out the template that would make a text of it; leave that option out"
    )]
    LeftOut,
    /// The file of a template cannot be used.
    #[error("the chat template in `{}` cannot be used: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The template fails at a conversation, or refuses it.
    #[error("the chat template `{}` refuses it{}: {reason}", path.display(), place(*line))]
    Template {
        /// The file.
        path: PathBuf,
        /// The line of the template, from 1.
        line: Option<usize>,
        /// What it says, or the library.
        reason: String,
    },
    /// A message has not the form of one.
    #[error(
        "message {number} of \"{field}\" {what}; each message is an object such as {{\"role\": \"user\", \"content\": \"...\"}}"
    )]
    Message {
        /// Which, from 1.
        number: usize,
        /// The list.
        field: String,
        /// What is wrong with it.
        what: String,
    },
    /// A list of messages is empty, or no list.
    #[error(
        "\"{field}\" {what}; write a list of messages such as {{\"role\": \"user\", \"content\": \"...\"}}"
    )]
    Messages {
        /// The field.
        field: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The assistant says nothing.
    #[error("no message in it is the assistant's, so nothing of it would be learned; leave it out")]
    NoAssistant,
    /// The template marks what the assistant says, and marks nothing.
    #[error(
        "the chat template marks with `{{% generation %}}` what is learned, and marks nothing of it; leave it out, or correct the template"
    )]
    NothingMarked,
    /// The text of the first messages is not the beginning of the text of all messages.
    #[error(
        "the chat template writes its first {num_messages} messages otherwise alone than before the others, so nothing says what the assistant says: at \
         byte {at} the text is {alone:?} alone and {whole:?} before the others; mark what is learned in the template, between `{{% generation %}}` and \
         `{{% endgeneration %}}`"
    )]
    NoPrefix {
        /// How many messages the beginning has.
        num_messages: usize,
        /// The first byte that differs.
        at: usize,
        /// What stands there where the beginning is rendered alone.
        alone: String,
        /// What stands there in the text of all.
        whole: String,
    },
    /// Finding what the assistant says would take too long.
    #[error(
        "its {num_messages} messages are too many to find what the assistant says by rendering each beginning of them; mark what is learned in the \
         template, between `{{% generation %}}` and `{{% endgeneration %}}`, or split it"
    )]
    TooLong {
        /// Messages.
        num_messages: usize,
    },
}

impl ChatFault {
    /// Whether there is no template at all.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::NoTokenizer | Self::NoTemplate(_) | Self::LeftOut)
    }
}

fn place(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(", in line {line}"))
}
