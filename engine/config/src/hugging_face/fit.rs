//! How closely weights must agree with the model of a run.

/// How closely weights must agree with the model of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// They have exactly the model's parameters.
    Same,
    /// The same, of a run whose file names weights to begin with: what is missing may be named as new there.
    SameUnlessNamed,
    /// The run draws some parameters: the model may have parameters that the weights lack, and they some that the model lacks.
    Part,
}

impl Fit {
    /// Whether weights and model may each have parameters that the other lacks.
    pub fn may_differ(self) -> bool {
        self == Self::Part
    }

    /// Advice on a parameter of the model that weights do not have, behind what is wrong.
    pub fn unless_new(self, name: &str) -> String {
        if self == Self::Same {
            return String::new();
        }
        let pattern = regex::escape(name).replace('\\', "\\\\");
        format!("; if it is new, name it in `init.new`: [\"^{pattern}$\"]")
    }
}
