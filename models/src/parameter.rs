//! Parameters: their names, shapes and initial values.

use std::ops::Range;

/// One parameter tensor of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterSpec {
    /// The full name, unique in the model but for tied weights and slices: `h.3.attn.qkv.weight`.
    pub name: String,
    /// The shape, row-major.
    pub shape: Vec<usize>,
    /// The rows, along the first dimension, that the layer has: all of them, or those of its slice of a vocabulary's table.
    pub rows: Range<usize>,
    /// How its first values are drawn.
    pub init: Init,
}

impl ParameterSpec {
    /// A parameter drawn from a normal distribution with mean 0.
    pub fn normal<const K: usize>(name: impl Into<String>, shape: [usize; K], std: f32) -> Self {
        Self::new(name, shape, Init::Normal { std })
    }

    /// A parameter that begins as all zero.
    pub fn zeros<const K: usize>(name: impl Into<String>, shape: [usize; K]) -> Self {
        Self::new(name, shape, Init::Zeros)
    }

    /// A parameter that begins as all one.
    pub fn ones<const K: usize>(name: impl Into<String>, shape: [usize; K]) -> Self {
        Self::new(name, shape, Init::Ones)
    }

    fn new<const K: usize>(name: impl Into<String>, shape: [usize; K], init: Init) -> Self {
        let rows = 0..shape.first().copied().unwrap_or(1);
        Self { name: name.into(), shape: shape.into(), rows, init }
    }

    /// Some rows of the parameter.
    pub fn with_rows(self, rows: Range<usize>) -> Self {
        Self { rows, ..self }
    }

    /// Number of elements of the rows that the layer has.
    pub fn num_elements(&self) -> usize {
        self.rows.len() * self.row_len()
    }

    /// Number of elements of the whole parameter.
    pub fn num_elements_of_all(&self) -> usize {
        self.shape.iter().product()
    }

    /// The place of the layer's first element among all of the parameter.
    pub fn first_element(&self) -> usize {
        self.rows.start * self.row_len()
    }

    /// Whether the layer has only some of the rows.
    pub fn is_slice(&self) -> bool {
        self.num_elements() < self.num_elements_of_all()
    }

    fn row_len(&self) -> usize {
        self.shape.iter().skip(1).product()
    }
}

/// How the first values of a parameter are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// All zero.
    Zeros,
    /// All one.
    Ones,
    /// Normal with mean 0.
    Normal {
        /// Standard deviation.
        std: f32,
    },
}
