//! What the assistant says in the text of a conversation.
//!
//! Where a template marks it with `{% generation %}`, that is it. Where it does not, a message of the assistant's is what the text of the messages up to
//! it has and that of the messages before it has not, with the words by which a template begins an answer. That holds only where each of these texts
//! begins the text of all, which is looked at.

use std::ops::Range;

use super::conversation::{Conversation, is_of_assistant};
use super::fault::ChatFault;
use super::template::{ChatTemplate, Messages};

/// Bytes that all renderings of a conversation may have together.
const RENDERED_MAX: usize = 256 << 20;

/// The text of a conversation, and what is learned of it, in bytes, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets {
    /// The text.
    pub text: String,
    /// What the assistant says.
    pub spoken: Vec<Range<usize>>,
}

impl ChatTemplate {
    /// The text of a conversation, and what is learned of it.
    ///
    /// # Errors
    /// When the template fails or refuses it, or nothing says what the assistant says.
    pub fn apply(&self, conversation: &Conversation) -> Result<Targets, ChatFault> {
        let Conversation { messages, num_given, tools } = conversation;
        let tools = tools.as_ref();
        let of = |messages, begins_answer| Messages { messages, tools, begins_answer };
        let whole = self.render(of(messages, false))?;
        if self.marks(tools) {
            let given = match num_given {
                0 => 0,
                given => self.prefix(of(&messages[..*given], true), &whole.text)?,
            };
            let spoken: Vec<_> = whole.marked.into_iter().filter(|part| part.start >= given).collect();
            return match spoken.is_empty() {
                true => Err(ChatFault::NothingMarked),
                false => Ok(Targets { text: whole.text, spoken }),
            };
        }
        let mut spoken: Vec<Range<usize>> = Vec::new();
        let mut num_rendered = 0;
        for number in (*num_given..messages.len()).filter(|&number| is_of_assistant(&messages[number])) {
            let begin = self.prefix(of(&messages[..number], true), &whole.text)?;
            let end = match number + 1 == messages.len() {
                true => whole.text.len(),
                false => self.prefix(of(&messages[..=number], false), &whole.text)?,
            };
            num_rendered += begin + end;
            if num_rendered > RENDERED_MAX {
                return Err(ChatFault::TooLong { num_messages: messages.len() });
            }
            match spoken.last_mut().filter(|last| last.end >= begin) {
                Some(last) => last.end = last.end.max(end),
                None => spoken.push(begin..end.max(begin)),
            }
        }
        Ok(Targets { text: whole.text, spoken })
    }

    /// How many bytes of the text of all messages the text of the first ones is.
    fn prefix(&self, first: Messages<'_>, whole: &str) -> Result<usize, ChatFault> {
        let alone = self.render(first)?.text;
        if whole.starts_with(&alone) {
            return Ok(alone.len());
        }
        // Some templates end a conversation with the token that ends a text: Phi-3's does.
        let before_end = self.eos_token().and_then(|eos| alone.strip_suffix(eos));
        if let Some(before_end) = before_end.filter(|_| !first.begins_answer)
            && whole.starts_with(before_end)
        {
            return Ok(before_end.len());
        }
        let at = alone.bytes().zip(whole.bytes()).take_while(|(alone, whole)| alone == whole).count();
        Err(ChatFault::NoPrefix {
            num_messages: first.messages.len(),
            at,
            alone: excerpt(&alone, at),
            whole: excerpt(whole, at),
        })
    }
}

/// Some letters of a text from about a byte on.
fn excerpt(text: &str, at: usize) -> String {
    let begin = (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    text[begin..].chars().take(24).collect()
}
