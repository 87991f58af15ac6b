//! Words of other systems for the type in which a run computes.

/// The type that a word of another system names.
pub(super) enum NamedType {
    Bf16,
    Fp16,
    F32,
    Fp8,
}

const BF16_WORDS: [&str; 3] = ["bf16", "bfloat16", "bf16-mixed"];
const FP16_WORDS: [&str; 5] = ["fp16", "float16", "half", "16", "16-mixed"];
const F32_WORDS: [&str; 6] = ["no", "f32", "fp32", "float32", "32", "32-true"];

impl NamedType {
    /// The type that is written, as a word or a number of bits; `None` where it names none.
    pub(super) fn of(written: &str) -> Option<Self> {
        let word = written.trim_matches('"').to_lowercase();
        let word = word.strip_prefix("torch.").unwrap_or(&word);
        match word {
            _ if BF16_WORDS.contains(&word) => Some(Self::Bf16),
            _ if FP16_WORDS.contains(&word) => Some(Self::Fp16),
            _ if F32_WORDS.contains(&word) => Some(Self::F32),
            _ if word.contains("fp8") || word.contains("float8") => Some(Self::Fp8),
            _ => None,
        }
    }
}
