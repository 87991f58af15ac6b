//! Keys whose values are words from a list.

use pipezero_files::json::{Node, Value, nearest, shorten};
use pipezero_partition::ReductionPolicy;
use schemars::{Schema, json_schema};

use super::error::Problem;
use super::kind::Kind;
use super::place::Place;
use super::resolved::{BackendName, DeviceName, EndSignal, OnCheckpointError, ReductionOrder, WarmupType};
use crate::TokenType;

/// Declares the words of a key as an enum, or with `impl` the words for the variants of an enum that exists. After them may
/// follow `also`, words that the key takes and another type reads, `later`, words that are to come, and `never`, words of
/// DeepSpeed's that are not; messages say so.
macro_rules! words {
    ($(#[doc = $doc:literal])+ $name:ident { $( $variant:ident = $word:literal, )+ } $($unoffered:tt)*) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name {
            $( $variant, )+
        }

        words! { impl $name { $( $variant = $word, )+ } $($unoffered)* }
    };
    (impl $name:ident { $( $variant:ident = $word:literal, )+ } $($unoffered:tt)*) => {
        words! { impl $name by |word: &str, known: &str| word == known; { $( $variant = $word, )+ } $($unoffered)* }
    };
    (impl $name:ident by $is:expr; { $( $variant:ident = $word:literal, )+ } $(also [$( $also:literal ),+])? $(later $later:tt)? $(never $never:tt)?) => {
        impl Words for $name {
            const WORDS: &'static [(&'static str, Self)] = &[$( ($word, Self::$variant), )+];
        }

        impl Kind for $name {
            fn expected() -> String {
                one_of(&[$( $word ),+])
            }

            fn example() -> String {
                format!("{:?}", [$( $word ),+][0])
            }

            fn schema() -> Schema {
                json_schema!({ "enum": [$( $word ),+] })
            }

            fn read(node: &Node) -> Option<Self> {
                let Value::String(word) = &node.value else { return None };
                let is = $is;
                Self::WORDS.iter().find(|(known, _)| is(word, known)).map(|&(_, variant)| variant)
            }

            fn fault(node: &Node, place: &Place) -> Option<(Place, Problem)> {
                let Value::String(word) = &node.value else { return None };
                let unoffered = Unoffered { later: &words!(list $($later)?), never: &words!(list $($never)?) };
                Some((place.clone(), unknown_word(word, &[$( $word, )+ $( $( $also, )+ )?], &unoffered)))
            }
        }
    };
    (list) => { [] };
    (list $list:tt) => { $list };
}

/// A key's words, each with what it means.
trait Words: Copy + PartialEq + 'static {
    const WORDS: &'static [(&'static str, Self)];
}

words! {
    /// Model families.
    FamilyWord { Gpt2 = "gpt2", Llama = "llama", Mlp = "mlp", Timed = "timed", }
}

impl FamilyWord {
    /// The family as run files write it.
    pub(crate) fn word(self) -> &'static str {
        let spelled = Self::WORDS.iter().find(|(_, family)| *family == self);
        spelled.expect("every family has a word").0
    }
}

words! {
    /// How rotary angles are scaled: Hugging Face's names.
    RopeWord { Default = "default", Linear = "linear", Dynamic = "dynamic", Llama3 = "llama3", Yarn = "yarn", } never ["longrope", "su"]
}

words! {
    /// Pipeline schedules.
    ScheduleWord {
        GPipe = "gpipe",
        OneFOneB = "1f1b",
        EagerOneFOneB = "eager-1f1b",
        Interleaved = "interleaved",
        Bfs = "bfs",
        ZbH1 = "zb-h1",
        ZbH2 = "zb-h2",
        ZbV = "zb-v",
    }
    later ["zb-1p", "zb-2p", "v-half", "v-min", "dualpipe-v"]
}

words! { impl ReductionPolicy { Every = "every", Last = "last", } }

words! {
    /// What `resident_units` may say beside numbers.
    ResidencyWord { Level = "level", Strict = "strict", All = "all", Auto = "auto", }
}

words! {
    /// Who says what is sharded.
    ShardingWord { Listed = "listed", Auto = "auto", }
}

words! {
    /// What `head_logits` may say.
    HeadLogitsWord { Keep = "keep", Recompute = "recompute", Auto = "auto", }
}

/// Optimizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptimizerWord {
    AdamW,
    Adam,
    Sgd,
}

// In any case, as DeepSpeed takes the names that it knows (`runtime/config.py:841`).
words! {
    impl OptimizerWord by |word: &str, known: &str| word.eq_ignore_ascii_case(known);
    { AdamW = "AdamW", Adam = "Adam", Sgd = "SGD", }
    never [
        "OneBitAdam", "ZeroOneAdam", "OneBitLamb", "Lamb", "Lion", "Adagrad", "Muon", "MuAdam", "MuAdamW", "MuSGD", "CPUAdam",
    ]
}

words! {
    /// Learning rate schedules, by what follows the warm-up.
    SchedulerWord { Constant = "WarmupLR", Decay = "WarmupDecayLR", Cosine = "WarmupCosineLR", }
    never ["OneCycle", "LRRangeTest"]
}

words! { impl OnCheckpointError { Continue = "continue", Stop = "stop", } }

words! { impl DeviceName { Cpu = "cpu", Cuda = "cuda", } also ["auto"] }

words! { impl EndSignal { Usr1 = "SIGUSR1", Usr2 = "SIGUSR2", None = "none", } }

words! { impl WarmupType { Log = "log", Linear = "linear", } }

words! { impl BackendName { Threads = "threads", Mpi = "mpi", Nccl = "nccl", } never ["gloo", "ccl", "hccl"] }

words! {
    impl TokenType { U8 = "u8", I8 = "i8", U16 = "u16", I16 = "i16", U32 = "u32", I32 = "i32", I64 = "i64", }
}

words! { impl ReductionOrder { Ordered = "ordered", Library = "library", } }

/// The words as a choice: `"a", "b" or "c"`.
pub(crate) fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// Words of a key that are known and have no effect.
pub(crate) struct Unoffered {
    /// Words that come later.
    pub(crate) later: &'static [&'static str],
    /// Words that DeepSpeed knows and that do not come.
    pub(crate) never: &'static [&'static str],
}

/// Words that people write for others.
const SYNONYMS: [(&str, &str); 1] = [("gpu", "cuda")];

/// What is wrong with a word that is not offered: where it is known, that; else the nearest of those that are offered.
pub(crate) fn unknown_word(word: &str, offered: &[&'static str], unoffered: &Unoffered) -> Problem {
    let use_one = format!("use {}", one_of(offered));
    let is = |known: &&str| known.eq_ignore_ascii_case(word);
    let (rule, repair) = if unoffered.later.iter().any(is) {
        ("that is not offered yet".to_owned(), use_one)
    } else if unoffered.never.iter().any(is) {
        ("that is not offered".to_owned(), use_one)
    } else {
        let synonym = SYNONYMS.iter().find(|(other, _)| other.eq_ignore_ascii_case(word));
        let meant = synonym.map(|&(_, usual)| usual).filter(|usual| offered.contains(usual));
        let nearest = meant.or_else(|| nearest(word, offered.iter().chain(unoffered.later).copied()));
        let repair = nearest.map_or(use_one, |nearest| format!("did you mean \"{nearest}\"?"));
        (format!("it must be {}", one_of(offered)), repair)
    };
    Problem::Rule { value: format!("\"{}\"", shorten(word)), rule, repair }
}
