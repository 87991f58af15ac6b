//! The inputs of an input encoder for a micro-batch.

use std::collections::HashSet;
use std::ops::Range;

use pipezero_models::input_encoder::{EncoderSpec, InputShape};
use pipezero_models::layer::MicroBatchShape;

/// The inputs that a source gives besides tokens, for a model with an [input encoder](pipezero_models::InputEncoder): any number of inputs,
/// each for one of its modules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EncoderBatch {
    inputs: Vec<Input>,
    tokens: Vec<usize>,
    values: Vec<f32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Input {
    module: usize,
    tokens: Range<usize>,
    values: Range<usize>,
}

/// One input of an input encoder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EncoderInput<'a> {
    /// The module that it is for, from 0.
    pub module: usize,
    /// Of each of its rows the token of the micro-batch, `sequence * T + position`, to which what the module makes of it is added.
    pub tokens: &'a [usize],
    /// `[rows, width of the module's inputs]`.
    pub values: &'a [f32],
}

impl EncoderBatch {
    /// Adds an input.
    pub fn push(&mut self, input: EncoderInput<'_>) {
        let [tokens, values] = [self.tokens.len(), self.values.len()];
        self.tokens.extend(input.tokens);
        self.values.extend(input.values);
        let (tokens, values) = (tokens..self.tokens.len(), values..self.values.len());
        self.inputs.push(Input { module: input.module, tokens, values });
    }

    /// Takes all inputs away.
    pub fn clear(&mut self) {
        self.inputs.clear();
        self.tokens.clear();
        self.values.clear();
    }

    /// The inputs in the order in which they were added.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = EncoderInput<'_>> {
        self.inputs.iter().map(|Input { module, tokens, values }| EncoderInput {
            module: *module,
            tokens: &self.tokens[tokens.clone()],
            values: &self.values[values.clone()],
        })
    }

    /// Refuses inputs that the model's input encoder does not take.
    pub(crate) fn check(
        &self,
        encoder: Option<&EncoderSpec>,
        shape: MicroBatchShape,
    ) -> Result<(), EncoderFault> {
        let num_inputs = self.inputs.len();
        let Some(encoder) = encoder else {
            return if num_inputs == 0 { Ok(()) } else { Err(EncoderFault::NoEncoder { num_inputs }) };
        };
        let at_most = encoder.num_inputs(shape);
        if num_inputs > at_most {
            return Err(EncoderFault::TooMany { num_inputs, at_most });
        }
        let mut taken = HashSet::with_capacity(self.tokens.len());
        for (input, EncoderInput { module, tokens, values }) in self.iter().enumerate() {
            let Some(&width) = encoder.widths.get(module) else {
                return Err(EncoderFault::Module { input, module, num_modules: encoder.widths.len() });
            };
            let (num_rows, at_most) = (tokens.len(), encoder.rows_per_input);
            if !(1..=at_most).contains(&num_rows) {
                return Err(EncoderFault::Rows { input, num_rows, at_most });
            }
            if values.len() != num_rows * width {
                return Err(EncoderFault::Values { input, num_values: values.len(), num_rows, width });
            }
            for &token in tokens {
                if token >= shape.num_tokens() {
                    return Err(EncoderFault::Token { input, token, num_tokens: shape.num_tokens() });
                }
                if !taken.insert(token) {
                    return Err(EncoderFault::TokenTwice { input, token });
                }
            }
        }
        Ok(())
    }

    /// As the layer sees the inputs, once they are checked.
    pub(crate) fn shapes(&self) -> impl Iterator<Item = InputShape> {
        self.iter().map(|input| InputShape { module: input.module, num_rows: input.tokens.len() })
    }
}

/// A mistake in the inputs of an input encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncoderFault {
    /// Nothing takes them.
    #[error(
        "the source gave {num_inputs} inputs for an input encoder, and the model has none; give no inputs, or put an input encoder behind the token embedding"
    )]
    NoEncoder {
        /// Inputs.
        num_inputs: usize,
    },
    /// More than there is room for.
    #[error(
        "the source gave {num_inputs} inputs of the input encoder, which has room for {at_most} in a micro-batch; give fewer, or raise its inputs_per_sequence"
    )]
    TooMany {
        /// Inputs.
        num_inputs: usize,
        /// Room.
        at_most: usize,
    },
    /// A module that is not there.
    #[error(
        "input {input} of the input encoder is for module {module}, and it has {num_modules}, counted from 0: name a lower one"
    )]
    Module {
        /// The input.
        input: usize,
        /// Its module.
        module: usize,
        /// Modules of the input encoder.
        num_modules: usize,
    },
    /// No rows, or too many.
    #[error(
        "input {input} of the input encoder has {num_rows} rows, which must be 1 to {at_most}: cut it into several, or raise the input encoder's rows_per_input"
    )]
    Rows {
        /// The input.
        input: usize,
        /// Its rows.
        num_rows: usize,
        /// Room.
        at_most: usize,
    },
    /// Not as many numbers as its rows have.
    #[error("input {input} of the input encoder has {num_values} numbers, and its {num_rows} rows of {width} have {}: give each row as many as its module takes", num_rows * width)]
    Values {
        /// The input.
        input: usize,
        /// Its numbers.
        num_values: usize,
        /// Its rows.
        num_rows: usize,
        /// Numbers of a row.
        width: usize,
    },
    /// A token beyond the micro-batch.
    #[error(
        "input {input} of the input encoder has a row for token {token}, and the micro-batch has {num_tokens}, counted from 0: name a lower one"
    )]
    Token {
        /// The input.
        input: usize,
        /// The token.
        token: usize,
        /// Tokens of the micro-batch.
        num_tokens: usize,
    },
    /// Two rows for one token.
    #[error(
        "input {input} of the input encoder has a row for token {token}, which has one already; give each token one at most"
    )]
    TokenTwice {
        /// The input.
        input: usize,
        /// The token.
        token: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: MicroBatchShape = MicroBatchShape { num_sequences: 2, seq_length: 3 };

    #[test]
    fn inputs_that_the_encoder_does_not_take_are_refused() {
        let encoder = EncoderSpec { widths: vec![2, 3], inputs_per_sequence: 1, rows_per_input: 2 };
        let check = |encoder: Option<&EncoderSpec>, inputs: &[(usize, &[usize], usize)]| {
            let mut batch = EncoderBatch::default();
            for &(module, tokens, num_values) in inputs {
                batch.push(EncoderInput { module, tokens, values: &vec![0.5; num_values] });
            }
            batch.check(encoder, SHAPE).map_err(|fault| fault.to_string())
        };
        let valid: [&[(usize, &[usize], usize)]; 3] =
            [&[], &[(0, &[5, 0], 4)], &[(1, &[1], 3), (1, &[2, 3], 6)]];
        for inputs in valid {
            assert_eq!(check(Some(&encoder), inputs), Ok(()));
        }
        assert_eq!(check(None, &[]), Ok(()));
        for (encoder, inputs, expected) in [
            (None, &[(0, &[0][..], 2)][..], "gave 1 inputs for an input encoder, and the model has none"),
            (Some(&encoder), &[(0, &[0], 2), (0, &[1], 2), (0, &[2], 2)], "has room for 2 in a micro-batch"),
            (Some(&encoder), &[(2, &[0], 2)], "input 0 of the input encoder is for module 2, and it has 2"),
            (Some(&encoder), &[(0, &[], 0)], "has 0 rows, which must be 1 to 2"),
            (Some(&encoder), &[(0, &[0, 1, 2], 6)], "has 3 rows, which must be 1 to 2"),
            (Some(&encoder), &[(1, &[0, 1], 4)], "has 4 numbers, and its 2 rows of 3 have 6"),
            (Some(&encoder), &[(0, &[6], 2)], "has a row for token 6, and the micro-batch has 6"),
            (
                Some(&encoder),
                &[(0, &[4], 2), (0, &[4], 2)],
                "input 1 of the input encoder has a row for token 4, which has one already",
            ),
        ] {
            let error = check(encoder, inputs).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
