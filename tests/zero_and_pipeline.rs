//! Which combinations of ZeRO and pipeline are refused, of random run files: beside rules that are written here anew, from the names and sizes of
//! parameters alone.

use pipezero_config::{HostGpu, Resources, Run, RunFile, StudentRun};
use pipezero_plan::{FromFileError, Plan};
use serde_json::{Value, json};
use tests::Draws;

const RESOURCES: Resources =
    Resources { cores: 8, memory_bytes: None, gpu: HostGpu::Absent, ranks: None, part: None };
const FILES: usize = 500;
const WIDTH: u64 = 32;
const VOCABULARY: u64 = 256;
const TOKENS: u64 = 16;

/// A GPT-2 on a pipeline.
#[derive(Clone, Debug)]
struct File {
    blocks: usize,
    tied: bool,
    pipeline: usize,
    data: usize,
    micro_batches: usize,
    stage: u64,
    /// Blocks of a unit; 0 is half of one.
    unit_blocks: usize,
    reduces_once: bool,
    kept: Kept,
}

/// The way in which a file says which parameters stay gathered.
#[derive(Clone, Debug)]
enum Kept {
    Thresholds { of_parameter: u64, of_model: u64 },
    List(Vec<(&'static str, Pattern)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    Any,
    Biases,
    FirstBlock,
    Mlps,
    LastNorm,
    Head,
    Positions,
}

impl Pattern {
    fn text(self) -> &'static str {
        match self {
            Self::Any => ".",
            Self::Biases => "bias$",
            Self::FirstBlock => "^h\\.0\\.",
            Self::Mlps => "\\.mlp",
            Self::LastNorm => "^ln_f",
            Self::Head => "^lm_head",
            Self::Positions => "^wpe",
        }
    }

    fn matches(self, parameter: &Parameter, tied: bool) -> bool {
        let Parameter { name, layer, .. } = parameter;
        match self {
            Self::Any => true,
            Self::Biases => name.ends_with("bias"),
            Self::FirstBlock => name.starts_with("h.0."),
            Self::Mlps => layer.contains(".mlp"),
            Self::LastNorm => name.starts_with("ln_f"),
            Self::Head => layer == "lm_head" || (tied && name == "wte.weight"),
            Self::Positions => name.starts_with("wpe"),
        }
    }
}

struct Parameter {
    name: String,
    layer: String,
    elements: u64,
}

/// The answer to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Valid,
    Zero2,
    OneUnit,
    /// These ranks do what ZeRO-2 does.
    Zero2Ranks(Vec<usize>),
}

impl File {
    fn drawn(draws: &mut Draws) -> Self {
        let pipeline = draws.of(&[1, 2, 2, 4, 4]);
        let kinds = ["sharded", "persistent", "persistent", "whole"];
        let patterns = [
            Pattern::Any,
            Pattern::Any,
            Pattern::Any,
            Pattern::Any,
            Pattern::Biases,
            Pattern::FirstBlock,
            Pattern::Mlps,
            Pattern::LastNorm,
            Pattern::Head,
            Pattern::Positions,
        ];
        let kept = if draws.below(2) == 0 {
            Kept::Thresholds {
                of_parameter: draws.of(&[0, 100, 1000, 3072, 4096, 100_000, 100_000]),
                of_model: draws.of(&[u64::MAX, u64::MAX, 20_000, 40_000]),
            }
        } else {
            let entries = 1 + draws.below(2);
            Kept::List((0..entries).map(|_| (draws.of(&kinds), draws.of(&patterns))).collect())
        };
        Self {
            blocks: pipeline * draws.of(&[1, 2, 2, 3]),
            tied: draws.below(2) == 0,
            pipeline,
            data: draws.of(&[1, 2, 4]),
            micro_batches: draws.of(&[1, 2, 4]),
            stage: draws.of(&[0, 1, 2, 3, 3, 3, 3, 3]),
            unit_blocks: draws.of(&[0, 1, 1, 1, 2, 100]),
            reduces_once: draws.below(4) == 0,
            kept,
        }
    }

    fn written(&self) -> Value {
        let mut zero = json!({ "stage": self.stage });
        if self.stage == 3 {
            zero["unit_layers"] = match self.unit_blocks {
                0 => json!(0.5),
                100 => json!("stage"),
                blocks => json!(blocks),
            };
            zero["reduce"] = json!(if self.reduces_once { "last" } else { "every" });
            match &self.kept {
                Kept::Thresholds { of_parameter, of_model } => {
                    zero["stage3_param_persistence_threshold"] = json!(of_parameter);
                    if *of_model < u64::MAX {
                        zero["stage3_model_persistence_threshold"] = json!(of_model);
                    }
                }
                Kept::List(entries) => {
                    let entry = |(kind, pattern): &(&str, Pattern)| format!("{kind}:{}", pattern.text());
                    zero["parameters"] = json!(entries.iter().map(entry).collect::<Vec<_>>());
                }
            }
        }
        json!({
            "model": { "family": "gpt2", "num_layers": self.blocks, "hidden_size": WIDTH, "num_attention_heads": 4, "seq_length": TOKENS,
                "tie_embeddings": self.tied },
            "data": { "text": "text.txt" },
            "parallel": { "pipeline": self.pipeline, "data": self.data, "partition": "uniform" },
            "zero_optimization": zero,
            "train_batch_size": self.data * self.micro_batches, "train_micro_batch_size_per_gpu": 1,
            "gradient_accumulation_steps": self.micro_batches,
            "threads": 1, "steps": 1
        })
    }

    /// All parameters in the order of the model, each with the ranks that hold it.
    fn parameters(&self) -> Vec<(Parameter, Vec<usize>)> {
        let (width, last) = (WIDTH, self.pipeline - 1);
        let of = |name: String, layer: &str, elements| Parameter { name, layer: layer.to_owned(), elements };
        let embedding = if self.tied { ["wte", "wpe"] } else { ["embedding"; 2] };
        let ends = if self.tied && last > 0 { vec![0, last] } else { vec![0] };
        let mut all = vec![
            (of("wte.weight".to_owned(), embedding[0], VOCABULARY * width), ends),
            (of("wpe.weight".to_owned(), embedding[1], TOKENS * width), vec![0]),
        ];
        let sizes = [
            ("attn", "ln_1.weight", width),
            ("attn", "ln_1.bias", width),
            ("attn", "attn.qkv.weight", 3 * width * width),
            ("attn", "attn.qkv.bias", 3 * width),
            ("attn", "attn.proj.weight", width * width),
            ("attn", "attn.proj.bias", width),
            ("mlp", "ln_2.weight", width),
            ("mlp", "ln_2.bias", width),
            ("mlp", "mlp.up.weight", 4 * width * width),
            ("mlp", "mlp.up.bias", 4 * width),
            ("mlp", "mlp.down.weight", 4 * width * width),
            ("mlp", "mlp.down.bias", width),
        ];
        for block in 0..self.blocks {
            let rank = block * self.pipeline / self.blocks;
            let of_block = sizes.map(|(layer, name, elements)| {
                (of(format!("h.{block}.{name}"), &format!("h.{block}.{layer}"), elements), vec![rank])
            });
            all.extend(of_block);
        }
        all.push((of("ln_f.weight".to_owned(), "ln_f", width), vec![last]));
        all.push((of("ln_f.bias".to_owned(), "ln_f", width), vec![last]));
        if !self.tied {
            all.push((of("lm_head.weight".to_owned(), "lm_head", VOCABULARY * width), vec![last]));
        }
        all
    }

    /// `[parameter]`: sharded, persistent or whole.
    fn kinds(&self, parameters: &[(Parameter, Vec<usize>)]) -> Vec<&'static str> {
        match &self.kept {
            Kept::List(entries) => parameters
                .iter()
                .map(|(parameter, _)| {
                    let decides = entries.iter().rfind(|(_, pattern)| pattern.matches(parameter, self.tied));
                    decides.map_or("sharded", |(kind, _)| kind)
                })
                .collect(),
            Kept::Thresholds { of_parameter, of_model } => {
                let mut sum = 0;
                parameters
                    .iter()
                    .map(|(Parameter { elements, .. }, _)| {
                        if elements > of_parameter || sum + elements > *of_model {
                            return "sharded";
                        }
                        sum += elements;
                        "persistent"
                    })
                    .collect()
            }
        }
    }

    /// The answer by the rules of docs/zero.md.
    fn expected(&self) -> Answer {
        if self.pipeline == 1 || self.stage < 2 {
            return Answer::Valid;
        }
        if self.stage == 2 {
            return Answer::Zero2;
        }
        let parameters = self.parameters();
        let kinds = self.kinds(&parameters);
        let of_rank = |rank: usize| {
            let held = parameters.iter().zip(&kinds).filter(move |((_, ranks), _)| ranks.contains(&rank));
            held.map(|((parameter, _), kind)| (parameter, *kind))
        };
        let blocks = self.blocks / self.pipeline;
        let is_lone = |rank: usize| {
            let has_table = self.tied && (rank == 0 || rank == self.pipeline - 1);
            let in_unit = |name: &str| !(self.tied && name == "wte.weight");
            let mut beside_tables = of_rank(rank).filter(|(parameter, _)| in_unit(&parameter.name));
            self.unit_blocks >= blocks
                && (blocks > 1 || !has_table)
                && beside_tables.any(|(_, kind)| kind != "whole")
        };
        if (0..self.pipeline).any(is_lone) {
            return Answer::OneUnit;
        }
        let does_as_zero_2 = |rank: &usize| {
            let share = |of: &dyn Fn(&str) -> bool| {
                let sum = |counts: &dyn Fn(&str) -> bool| {
                    let counted = of_rank(*rank).filter(|(_, kind)| counts(kind));
                    counted.map(|(parameter, _)| parameter.elements as f64).sum::<f64>()
                };
                sum(of) / sum(&|_| true)
            };
            let often = if self.reduces_once { 0.0 } else { share(&|kind| kind != "whole") };
            share(&|kind| kind != "sharded") > 0.95 && often > 0.5
        };
        match (0..self.pipeline).filter(does_as_zero_2).collect::<Vec<_>>() {
            ranks if ranks.is_empty() => Answer::Valid,
            ranks => Answer::Zero2Ranks(ranks),
        }
    }

    fn read(&self) -> RunFile {
        RunFile::parse("run.json", &self.written().to_string()).expect("it is JSON")
    }
}

/// The answer of the program, with its words.
fn answered(planned: Result<Plan, FromFileError>) -> (Answer, String) {
    let Err(error) = planned else { return (Answer::Valid, String::new()) };
    let text = error.to_string();
    let ranks = text.split_once("pipeline rank").and_then(|(_, rest)| rest.split_once(" keep"));
    let answer = if text.contains("ZeRO-2 is incompatible with pipeline parallelism") {
        Answer::Zero2
    } else if text.contains("ZeRO-3 with one unit for all layers of a rank") {
        Answer::OneUnit
    } else if let Some((ranks, _)) = ranks {
        let ranks = ranks.trim_start_matches('s').split(',');
        Answer::Zero2Ranks(ranks.map(|rank| rank.trim().parse().expect("a rank")).collect())
    } else {
        panic!("{text}")
    };
    (answer, text)
}

fn student() -> Run {
    let file = json!({
        "model": { "family": "gpt2", "num_layers": 2, "hidden_size": WIDTH, "num_attention_heads": 4, "seq_length": TOKENS },
        "data": { "text": "text.txt" }, "train_batch_size": 16, "threads": 1, "steps": 1
    });
    let file = RunFile::parse("student.json", &file.to_string()).expect("it is JSON");
    file.resolve(RESOURCES).expect("a valid run").0
}

/// A file is refused for gradients alone: an engine that takes none is never refused, and holds neither gradients nor an optimizer.
#[test]
fn random_files_are_refused_by_what_their_ranks_do_and_never_for_gradients_that_they_do_not_take() {
    let mut draws = Draws(57);
    let student = student();
    let mut counts = [0; 4];
    for _ in 0..FILES {
        let file = File::drawn(&mut draws);
        let (expected, read) = (file.expected(), file.read());
        let (found, text) = answered(Plan::from_file(&read, RESOURCES).map(|(plan, _)| plan));
        assert_eq!(found, expected, "{file:?}\n{text}");
        let of_one = text.contains("one micro-batch") || text.contains("gathered at once");
        assert!(found == Answer::Valid || of_one == (file.micro_batches == 1), "{file:?}\n{text}");
        counts[match found {
            Answer::Valid => 0,
            Answer::Zero2 => 1,
            Answer::OneUnit => 2,
            Answer::Zero2Ranks(_) => 3,
        }] += 1;
        let teacher = Plan::for_inference(&read, RESOURCES, StudentRun { name: "student", run: &student });
        let (teacher, _) = teacher.unwrap_or_else(|error| panic!("{file:?}\n{error}"));
        let evaluated = read.resolve_without_training(RESOURCES).map(|(run, _)| Plan::new(run));
        let evaluated =
            evaluated.expect("nothing is wrong").unwrap_or_else(|error| panic!("{file:?}\n{error}"));
        for plan in [teacher, evaluated] {
            for rank in plan.forecast() {
                let held = [rank.memory.gradients, rank.memory.optimizer, rank.memory.checkpoint];
                assert_eq!(held, [0; 3], "{file:?}");
            }
        }
    }
    println!("valid, ZeRO-2, one unit, ranks as under ZeRO-2: {counts:?}");
    assert!(counts.iter().all(|&count| count >= FILES / 20), "{counts:?}");
}

/// The threshold that is offered is the highest with which no rank does what ZeRO-2 does.
#[test]
fn the_threshold_that_a_refusal_offers_is_the_highest_that_is_not_refused() {
    let mut draws = Draws(58);
    let mut num_tried = 0;
    while num_tried < 20 {
        let file = File::drawn(&mut draws);
        let Kept::Thresholds { of_model: u64::MAX, .. } = file.kept else { continue };
        let planned = |file: &File| answered(Plan::from_file(&file.read(), RESOURCES).map(|(plan, _)| plan));
        let (Answer::Zero2Ranks(_), text) = planned(&file) else { continue };
        let (_, offered) = text.split_once("; use ").expect("a repair");
        let offered: u64 =
            offered.split(' ').next().and_then(|number| number.parse().ok()).expect("a number");
        let with = |of_parameter| {
            planned(&File { kept: Kept::Thresholds { of_parameter, of_model: u64::MAX }, ..file.clone() }).0
        };
        assert_eq!(with(offered), Answer::Valid, "{file:?}\n{text}");
        assert!(matches!(with(offered + 1), Answer::Zero2Ranks(_)), "{file:?}\n{text}");
        num_tried += 1;
    }
}
