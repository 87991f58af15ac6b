//! Parameters: their names, shapes and initial values.

/// One parameter tensor of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterSpec {
    /// The full name, unique in the model but for tied weights: `h.3.attn.qkv.weight`.
    pub name: String,
    /// The shape, row-major.
    pub shape: Vec<usize>,
    /// How its first values are drawn.
    pub init: Init,
}

impl ParameterSpec {
    /// A parameter drawn from a normal distribution with mean 0.
    pub fn normal<const K: usize>(name: impl Into<String>, shape: [usize; K], std: f32) -> Self {
        Self { name: name.into(), shape: shape.into(), init: Init::Normal { std } }
    }

    /// A parameter that begins as all zero.
    pub fn zeros<const K: usize>(name: impl Into<String>, shape: [usize; K]) -> Self {
        Self { name: name.into(), shape: shape.into(), init: Init::Zeros }
    }

    /// A parameter that begins as all one.
    pub fn ones<const K: usize>(name: impl Into<String>, shape: [usize; K]) -> Self {
        Self { name: name.into(), shape: shape.into(), init: Init::Ones }
    }

    /// Number of elements.
    pub fn num_elements(&self) -> usize {
        self.shape.iter().product()
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
