//! ZeRO beside pipelines: what is refused, with its numbers, and what is warned of.

mod followed; // What messages say to write is written.

use expect_test::{Expect, expect};
use pipezero_config::testing::{RESOURCES, beside_defaults, file};
use pipezero_config::{Resources, RunFile};

use crate::{FromFileError, Plan};

/// What refuses the file, or what it says although nothing does.
fn outcome(text: &str) -> String {
    let file = RunFile::parse("run.json", text).unwrap();
    match Plan::from_file(&file, RESOURCES) {
        Ok((_, notices)) => {
            // Most files here have few micro-batches, which is not what they are about.
            let other =
                beside_defaults(&notices).filter(|notice| notice.path() != "gradient_accumulation_steps");
            let lines: String = other.map(|notice| format!("{notice}\n")).collect();
            if lines.is_empty() { "valid\n".to_owned() } else { lines }
        }
        Err(error @ FromFileError::File(_)) => format!("{error}\n"),
        Err(other) => panic!("{other}"),
    }
}

/// The outcome of the valid file with another model, grid and ZeRO; what is empty stays as it is.
fn of(model: &str, parallel: &str, zero: &str) -> String {
    let changes = [("model", model), ("parallel", parallel), ("zero_optimization", zero)];
    outcome(&file(&changes.into_iter().filter(|(_, value)| !value.is_empty()).collect::<Vec<_>>()))
}

/// Compares outcomes, one after the other.
fn check(outcomes: &[String], expected: Expect) {
    expected.assert_eq(&outcomes.concat());
}

const MLP: &str = r#"{"family": "mlp", "num_layers": 8, "hidden_size": 100, "seq_length": 16}"#;

const DATA: &str = r#"{"data": 2}"#;

const UNIFORM: &str = r#"{"pipeline": 2, "data": 2, "partition": "uniform"}"#;

/// The numbers by hand, s = 2 for AdamW: a block has 100^2 + 100 = 10,100 parameters, embedding and head 25,600 each; a
/// stage of four blocks and one of the two has P = 66,000; a unit of one block and embedding U = 35,700. At d = 2 each
/// unit is padded to a multiple of 32: P = 66,048 and U = 35,712. m = 4, G = 4 * 66,048 / 2 = 132,096. In bytes:
/// parameters 264,192, optimizer 264,192; ZeRO-2 by micro-batch has gradients 132,096 + 4 U + 4 * 10,112 = 315,392 and sends 5 G =
/// 660,480; ZeRO-3 gathers into 4 U + 4 * 10,112 = 183,296.
///
/// In bf16 parameters and gathers have 2 bytes, gradients 4, and the optimizer's state has a master copy: parameters
/// 132,096 (none under ZeRO-3, which casts them from the master copy), gathered 91,648, optimizer 3 x 132,096.
#[test]
fn zero_2_with_a_pipeline_is_refused_with_this_runs_numbers() {
    let zero_2 = [
        ("model", MLP),
        ("parallel", UNIFORM),
        ("gradient_accumulation_steps", "4"),
        ("zero_optimization", r#"{"stage": 2}"#),
        ("bf16", r#"{"enabled": true}"#),
    ];
    check(
        &[
            outcome(&file(&zero_2[..4])),
            outcome(&file(&zero_2)),
            // Also where sizes are wrong.
            of("", r#"{"pipeline": 5}"#, r#"{"stage": 2}"#),
        ],
        expect![[r#"
            run.json:8:34: `zero_optimization.stage`: ZeRO-2 is incompatible with pipeline parallelism (`parallel.pipeline` is 2): gradients would either accumulate unsharded over the micro-batches, which is ZeRO-1's memory, or be reduced after every one of them, which is ZeRO-3's reductions without freeing weights; write "stage": 1, or "stage": 3 with units smaller than a stage, or "pipeline": 1
              per rank                                                         parameters   gathered  gradients  optimizer      total  sent per step
              refused: ZeRO-2, pipeline 2 x data 2, reduced once per step       258.0 KiB        0 B  258.0 KiB  258.0 KiB  774.0 KiB      258.0 KiB
              refused: ZeRO-2, pipeline 2 x data 2, reduced every micro-batch   258.0 KiB        0 B  308.0 KiB  258.0 KiB  824.0 KiB      645.0 KiB
              ZeRO-1, pipeline 2 x data 2                                       258.0 KiB        0 B  258.0 KiB  258.0 KiB  774.0 KiB      258.0 KiB
              ZeRO-3, pipeline 2 x data 2, units of 1 layer                     129.0 KiB  179.0 KiB  308.0 KiB  258.0 KiB  874.0 KiB        1.0 MiB
              ZeRO-2, pipeline 1 x data 4                                       516.0 KiB        0 B  408.0 KiB  258.0 KiB    1.2 MiB        1.1 MiB
            run.json:8:34: `zero_optimization.stage`: ZeRO-2 is incompatible with pipeline parallelism (`parallel.pipeline` is 2): gradients would either accumulate unsharded over the micro-batches, which is ZeRO-1's memory, or be reduced after every one of them, which is ZeRO-3's reductions without freeing weights; write "stage": 1, or "stage": 3 with units smaller than a stage, or "pipeline": 1
              per rank                                                         parameters  gathered  gradients  optimizer      total  sent per step
              refused: ZeRO-2, pipeline 2 x data 2, reduced once per step       129.0 KiB       0 B  258.0 KiB  387.0 KiB  774.0 KiB      193.5 KiB
              refused: ZeRO-2, pipeline 2 x data 2, reduced every micro-batch   129.0 KiB       0 B  308.0 KiB  387.0 KiB  824.0 KiB      580.5 KiB
              ZeRO-1, pipeline 2 x data 2                                       129.0 KiB       0 B  258.0 KiB  387.0 KiB  774.0 KiB      193.5 KiB
              ZeRO-3, pipeline 2 x data 2, units of 1 layer                           0 B  89.5 KiB  308.0 KiB  387.0 KiB  784.5 KiB      793.8 KiB
              ZeRO-2, pipeline 1 x data 4                                       258.0 KiB       0 B  408.0 KiB  387.0 KiB    1.0 MiB      967.5 KiB
            run.json:6:28: `parallel.pipeline` is 5, but the model has 4 layers: every stage needs at least one; use at most 4
            run.json:7:34: `zero_optimization.stage`: ZeRO-2 is incompatible with pipeline parallelism (`parallel.pipeline` is 5): gradients would either accumulate unsharded over the micro-batches, which is ZeRO-1's memory, or be reduced after every one of them, which is ZeRO-3's reductions without freeing weights; write "stage": 1, or "stage": 3 with units smaller than a stage, or "pipeline": 1
        "#]],
    );
}

#[test]
fn zero_3_needs_several_units_per_stage() {
    let of_four = r#"{"pipeline": 4, "data": 2}"#;
    let uneven = r#"{"pipeline": 2, "data": 2, "partition": [3, 1]}"#;
    let mlp = r#"{"family": "mlp", "num_layers": 4, "hidden_size": 8, "seq_length": 16}"#;
    check(
        &[
            of("", UNIFORM, r#"{"stage": 3, "unit_layers": 2}"#),
            of("", UNIFORM, r#"{"stage": 3, "unit_layers": "stage"}"#),
            of("", r#"{"pipeline": 2, "data": 2}"#, r#"{"stage": 3, "unit_layers": 2}"#),
            of(mlp, of_four, r#"{"stage": 3}"#),
            of("", of_four, r#"{"stage": 3}"#),
            of(mlp, uneven, r#"{"stage": 3}"#),
            of("", uneven, r#"{"stage": 3}"#),
        ],
        expect![[r#"
            run.json:7:52: `zero_optimization.unit_layers`: ZeRO-3 with one unit for all layers of a rank is incompatible with pipeline parallelism (`parallel.pipeline` is 2, and with the split "uniform" one unit holds all layers of pipeline rank 0, wpe to h.1.mlp): everything would be gathered at once, and the peak memory is that of no sharding; write "unit_layers": 0.5, or "stage": 1, or "unit_layers": 1
              per rank                                                  parameters   gathered  gradients  optimizer      total  sent per step
              refused: ZeRO-3, pipeline 2 x data 2, one unit on a rank    66.6 KiB  133.2 KiB  199.9 KiB  133.2 KiB  533.0 KiB      133.2 KiB
              ZeRO-3, pipeline 2 x data 2, units of 1 layer               66.6 KiB  101.2 KiB  167.9 KiB  133.2 KiB  469.0 KiB      133.2 KiB
              ZeRO-3, pipeline 2 x data 2, units of half a layer          65.8 KiB   65.1 KiB  130.9 KiB  131.5 KiB  393.2 KiB      164.7 KiB
              ZeRO-1, pipeline 2 x data 2                                133.2 KiB        0 B  133.2 KiB  133.2 KiB  399.8 KiB      133.2 KiB
              ZeRO-2, pipeline 1 x data 4                                232.8 KiB        0 B  266.9 KiB  116.4 KiB  616.1 KiB      373.1 KiB
            run.json:7:52: `zero_optimization.unit_layers`: ZeRO-3 with one unit for all layers of a rank is incompatible with pipeline parallelism (`parallel.pipeline` is 2, and with the split "uniform" one unit holds all layers of pipeline rank 0, wpe to h.1.mlp): everything would be gathered at once, and the peak memory is that of no sharding; write "unit_layers": 0.5, or "stage": 1, or "unit_layers": 1
              per rank                                                  parameters   gathered  gradients  optimizer      total  sent per step
              refused: ZeRO-3, pipeline 2 x data 2, one unit on a rank    66.6 KiB  133.2 KiB  199.9 KiB  133.2 KiB  533.0 KiB      133.2 KiB
              ZeRO-3, pipeline 2 x data 2, units of 1 layer               66.6 KiB  101.2 KiB  167.9 KiB  133.2 KiB  469.0 KiB      133.2 KiB
              ZeRO-3, pipeline 2 x data 2, units of half a layer          65.8 KiB   65.1 KiB  130.9 KiB  131.5 KiB  393.2 KiB      164.7 KiB
              ZeRO-1, pipeline 2 x data 2                                133.2 KiB        0 B  133.2 KiB  133.2 KiB  399.8 KiB      133.2 KiB
              ZeRO-2, pipeline 1 x data 4                                232.8 KiB        0 B  298.9 KiB  116.4 KiB  648.1 KiB      373.1 KiB
            run.json:7:52: `zero_optimization.unit_layers`: ZeRO-3 with one unit for all layers of a rank is incompatible with pipeline parallelism (`parallel.pipeline` is 2, and with the split "balanced" one unit holds all layers of pipeline rank 0, wpe to h.1.mlp): everything would be gathered at once, and the peak memory is that of no sharding; write "unit_layers": 0.5, or "stage": 1, or "unit_layers": 1
              per rank                                                  parameters   gathered  gradients  optimizer      total  sent per step
              refused: ZeRO-3, pipeline 2 x data 2, one unit on a rank    66.6 KiB  133.2 KiB  199.9 KiB  133.2 KiB  533.0 KiB      133.2 KiB
              ZeRO-3, pipeline 2 x data 2, units of 1 layer               66.6 KiB  101.2 KiB  167.9 KiB  133.2 KiB  469.0 KiB      133.2 KiB
              ZeRO-3, pipeline 2 x data 2, units of half a layer          65.8 KiB   65.1 KiB  130.9 KiB  131.5 KiB  393.2 KiB      164.7 KiB
              ZeRO-1, pipeline 2 x data 2                                133.2 KiB        0 B  133.2 KiB  133.2 KiB  399.8 KiB      133.2 KiB
              ZeRO-2, pipeline 1 x data 4                                232.8 KiB        0 B  266.9 KiB  116.4 KiB  616.1 KiB      373.1 KiB
            run.json:7:34: `zero_optimization.stage`: ZeRO-3 with one unit for all layers of a rank is incompatible with pipeline parallelism (`parallel.pipeline` is 4, and with the split "balanced" one unit holds all layers of pipeline rank 0, wte to h.0.dense): everything would be gathered at once, and the peak memory is that of no sharding; write "stage": 1
              per rank                                                  parameters  gathered  gradients  optimizer     total  sent per step
              refused: ZeRO-3, pipeline 4 x data 2, one unit on a rank     4.2 KiB   8.4 KiB   12.6 KiB    8.4 KiB  33.5 KiB        8.4 KiB
              ZeRO-1, pipeline 4 x data 2                                  8.4 KiB       0 B    8.4 KiB    8.4 KiB  25.1 KiB        8.4 KiB
              ZeRO-2, pipeline 1 x data 8                                 18.0 KiB       0 B   11.8 KiB    4.5 KiB  34.2 KiB       31.5 KiB
            run.json:7:34: `zero_optimization.stage`: ZeRO-3 with one unit for all layers of a rank is incompatible with pipeline parallelism (`parallel.pipeline` is 4, and with the split "balanced" one unit holds all layers of pipeline rank 1, h.1.attn to h.1.mlp): everything would be gathered at once, and the peak memory is that of no sharding; write "stage": 1, or "unit_layers": 0.5
              per rank                                                  parameters  gathered  gradients  optimizer      total  sent per step
              refused: ZeRO-3, pipeline 4 x data 2, one unit on a rank    41.8 KiB  83.6 KiB  125.4 KiB   83.6 KiB  334.5 KiB       83.6 KiB
              ZeRO-3, pipeline 4 x data 2, units of half a layer          40.9 KiB  65.1 KiB  106.1 KiB   81.9 KiB  294.0 KiB       90.2 KiB
              ZeRO-1, pipeline 4 x data 2                                 83.6 KiB       0 B   83.6 KiB   83.6 KiB  250.9 KiB       83.6 KiB
              ZeRO-2, pipeline 1 x data 8                                234.0 KiB       0 B  135.2 KiB   58.5 KiB  427.8 KiB      437.5 KiB
            run.json:7:34: `zero_optimization.stage`: ZeRO-3 with one unit for all layers of a rank is incompatible with pipeline parallelism (`parallel.pipeline` is 2, and with the split [3, 1] one unit holds all layers of pipeline rank 1, h.3.dense to lm_head): everything would be gathered at once, and the peak memory is that of no sharding; write "stage": 1, or "partition": "uniform"
              per rank                                                  parameters  gathered  gradients  optimizer     total  sent per step
              refused: ZeRO-3, pipeline 2 x data 2, one unit on a rank     4.6 KiB   8.8 KiB   13.3 KiB    9.1 KiB  35.8 KiB       13.3 KiB
              ZeRO-3, pipeline 2 x data 2, uniform split                   4.4 KiB   8.8 KiB   13.1 KiB    8.8 KiB  35.0 KiB        8.8 KiB
              ZeRO-1, pipeline 2 x data 2                                  9.1 KiB       0 B    9.1 KiB    9.1 KiB  27.4 KiB        9.1 KiB
              ZeRO-2, pipeline 1 x data 4                                 18.0 KiB       0 B   14.0 KiB    9.0 KiB  41.0 KiB       27.0 KiB
            run.json:7:34: warning: `zero_optimization.stage`: ZeRO-3 does not pay on pipeline rank 1: it needs 619.50 KiB there, ZeRO-1 on the same grid 537.62 KiB, and it sends 106.16 KiB in a step, ZeRO-1 106.16 KiB; use "stage": 1
        "#]],
    );
}

/// Without a pipeline one unit may hold all layers; on one data rank nothing is sharded.
#[test]
fn zero_3_that_saves_nothing_is_warned_of() {
    check(
        &[
            of("", DATA, r#"{"stage": 3, "unit_layers": "stage"}"#),
            of("", DATA, r#"{"stage": 3, "unit_layers": 9}"#),
            of("", r#"{"pipeline": 2}"#, r#"{"stage": 3}"#),
            of("", "", r#"{"stage": 1}"#),
        ],
        expect![[r#"
            run.json:7:52: warning: `zero_optimization.unit_layers`: one unit holds every layer: the whole model is gathered at once, so ZeRO-3 saves no weights at its peak
            run.json:7:52: warning: `zero_optimization.unit_layers`: one unit holds every layer: the whole model is gathered at once, so ZeRO-3 saves no weights at its peak
            run.json:7:34: warning: `zero_optimization.stage`: the data degree is 1, so ZeRO-3 has nothing left to shard: all 59584 parameters stay whole
            run.json:6:34: warning: `zero_optimization.stage`: the data degree is 1, so ZeRO-1 has nothing left to shard: all 59584 parameters stay whole
        "#]],
    );
}

/// Where nothing is sharded, it is told which level that is; in a pipeline ZeRO-2 by another name is refused.
#[test]
fn a_list_that_shards_nothing_is_named_for_what_it_is() {
    let list = |rest: &str| format!(r#"{{"stage": 3, {rest}}}"#);
    let persistent = list(r#""parameters": ["persistent:."]"#);
    let one_whole = list(r#""parameters": ["persistent:.", "whole:ln_f.bias"]"#);
    let last = list(r#""reduce": "last", "parameters": ["persistent:."]"#);
    let whole = list(r#""parameters": ["whole:."]"#);
    let threshold = list(r#""stage3_param_persistence_threshold": 1e9"#);
    // A tied weight is a unit of its own, so it is reduced once.
    let tied = r#"{"family": "gpt2", "num_layers": 4, "hidden_size": 32, "num_attention_heads": 4, "seq_length": 16, "tie_embeddings": true}"#;
    let tied_whole = list(r#""parameters": ["persistent:.", "whole:^lm_head"]"#);
    check(
        &[
            of(MLP, UNIFORM, &persistent),
            of("", UNIFORM, &persistent),
            of("", UNIFORM, &one_whole),
            of("", UNIFORM, &threshold),
            of("", UNIFORM, &last),
            of("", UNIFORM, &whole),
            of(tied, UNIFORM, &tied_whole),
            of("", DATA, &persistent),
            of("", DATA, &one_whole),
            of("", DATA, &last),
        ],
        expect![[r#"
            run.json:7:51: `zero_optimization.parameters` is ["persistent:."], but pipeline ranks 0, 1 keep all of their weights whole between steps and reduce gradients after the one micro-batch of a step, which is ZeRO-2, and that is incompatible with pipeline parallelism (`parallel.pipeline` is 2): with one micro-batch the ranks of a pipeline compute one after the other; with more, each micro-batch would cost a reduction although weights are whole; let more weights of these ranks be sharded, or write "stage": 1
            run.json:7:51: `zero_optimization.parameters` is ["persistent:."], but pipeline ranks 0, 1 keep all of their weights whole between steps and reduce gradients after the one micro-batch of a step, which is ZeRO-2, and that is incompatible with pipeline parallelism (`parallel.pipeline` is 2): with one micro-batch the ranks of a pipeline compute one after the other; with more, each micro-batch would cost a reduction although weights are whole; let more weights of these ranks be sharded, or write "stage": 1
            run.json:7:51: `zero_optimization.parameters` is ["persistent:.", "whole:ln_f.bias"], but pipeline ranks 0, 1 keep all of their weights whole between steps and reduce gradients after the one micro-batch of a step, which is ZeRO-2, and that is incompatible with pipeline parallelism (`parallel.pipeline` is 2): with one micro-batch the ranks of a pipeline compute one after the other; with more, each micro-batch would cost a reduction although weights are whole; let more weights of these ranks be sharded, or write "stage": 1
            run.json:7:75: `zero_optimization.stage3_param_persistence_threshold` is 1000000000, but pipeline ranks 0, 1 keep all of their weights whole between steps and reduce gradients after the one micro-batch of a step, which is ZeRO-2, and that is incompatible with pipeline parallelism (`parallel.pipeline` is 2): with one micro-batch the ranks of a pipeline compute one after the other; with more, each micro-batch would cost a reduction although weights are whole; use 8191 or less, or write "stage": 1
            run.json:7:34: warning: `zero_optimization.stage`: ZeRO-3 does not pay on pipeline rank 1: it needs 704.50 KiB there, ZeRO-1 on the same grid 704.50 KiB, and it sends 155.78 KiB in a step, ZeRO-1 155.78 KiB; use "stage": 1
            run.json:7:69: warning: `zero_optimization.parameters`: with this list all 6 units (59584 elements) stay gathered all step and ZeRO-3 has no weights left to shard; optimizer state alone is sharded, and gradients are reduced once, as they would be by ZeRO-1; let some units be sharded
            run.json:7:51: hint: `zero_optimization.parameters`: every unit is whole, which is ZeRO-1; use "stage": 1, which says so
            run.json:7:51: `zero_optimization.parameters` is ["persistent:.", "whole:^lm_head"], but pipeline ranks 0, 1 keep all of their weights whole between steps and reduce gradients after the one micro-batch of a step, which is ZeRO-2, and that is incompatible with pipeline parallelism (`parallel.pipeline` is 2): with one micro-batch the ranks of a pipeline compute one after the other; with more, each micro-batch would cost a reduction although weights are whole; let more weights of these ranks be sharded, or write "stage": 1
            run.json:7:34: warning: `zero_optimization.stage`: ZeRO-3 does not pay on pipeline rank 0: it needs 1.18 MiB there, ZeRO-1 on the same grid 1.22 MiB, and it sends 248.94 KiB in a step, ZeRO-1 248.94 KiB; use "stage": 1 if a rank has the 1.22 MiB that its fullest one then needs; or "unit_layers": 0.5, with which every rank needs at least 5% less than under ZeRO-1, and sends at most 248.94 KiB
            run.json:7:51: warning: `zero_optimization.parameters`: with this list all 6 units (59584 elements) stay gathered all step and ZeRO-3 has no weights left to shard; gradients and optimizer state are sharded, as they would be by ZeRO-2; let some units be sharded
            run.json:7:34: warning: `zero_optimization.stage`: ZeRO-3 does not pay on pipeline rank 0: it needs 1.18 MiB there, ZeRO-1 on the same grid 1.22 MiB, and it sends 248.94 KiB in a step, ZeRO-1 248.94 KiB; use "stage": 1 if a rank has the 1.22 MiB that its fullest one then needs; or "unit_layers": 0.5, with which every rank needs at least 5% less than under ZeRO-1, and sends at most 248.94 KiB
            run.json:7:51: warning: `zero_optimization.parameters`: with this list all 6 units (59584 elements) stay gathered all step and ZeRO-3 has no weights left to shard; optimizer state is sharded, and gradients of what persists, which is less than ZeRO-2 shards; let some units be sharded
            run.json:7:34: warning: `zero_optimization.stage`: ZeRO-3 does not pay on pipeline rank 0: it needs 1.22 MiB there, ZeRO-1 on the same grid 1.22 MiB, and it sends 248.94 KiB in a step, ZeRO-1 248.94 KiB; use "stage": 1
            run.json:7:69: warning: `zero_optimization.parameters`: with this list all 6 units (59584 elements) stay gathered all step and ZeRO-3 has no weights left to shard; optimizer state alone is sharded, and gradients are reduced once, as they would be by ZeRO-1; let some units be sharded
        "#]],
    );
}

/// Two stages on each rank are two units at least: nothing is refused.
#[test]
fn several_stages_on_a_rank_are_several_units() {
    let model = r#"{"family": "gpt2", "num_layers": 24, "hidden_size": 8, "num_attention_heads": 1, "seq_length": 16}"#;
    let parallel = r#"{"pipeline": 2, "data": 8, "schedule": "interleaved", "virtual_stages": 4, "partition": "uniform"}"#;
    check(
        &[
            of(model, parallel, r#"{"stage": 3, "unit_layers": "stage"}"#),
            of(model, parallel, r#"{"stage": 3, "unit_layers": "stage", "resident_units": 3}"#),
            of(model, parallel, r#"{"stage": 3, "unit_layers": "stage", "resident_units": 4}"#),
        ],
        expect![[r#"
            valid
            valid
            valid
        "#]],
    );
}

/// The plan of 6 blocks on two pipeline ranks, or why the file or the plan refuses it.
fn planned(partition: &str, tied: bool, zero: &str) -> Result<Plan, String> {
    let text = format!(
        r#"{{
            "model": {{"family": "gpt2", "num_layers": 6, "hidden_size": 16, "num_attention_heads": 2, "seq_length": 8,
                "vocab_size": 768, "tie_embeddings": {tied}}},
            "data": {{"text": "text"}},
            "parallel": {{"pipeline": 2, "data": 2, "partition": {partition}}},
            "zero_optimization": {zero},
            "train_batch_size": 8,
            "optimizer": {{"type": "AdamW", "params": {{"lr": 0.01}}}},
            "steps": 1
        }}"#
    );
    let file = RunFile::parse("run.json", &text).map_err(|error| error.to_string())?;
    let (run, _) = file.resolve(Resources::this_host()).map_err(|error| error.to_string())?;
    Plan::new(run).map_err(|error| error.to_string())
}

/// The head costs as much as four blocks, so that the last stage gets one. Where the head's weight is tied it is a unit of
/// its own and the stage has two; else block and head are one.
#[test]
fn a_split_is_refused_however_it_is_written() {
    let mut num_refused = 0;
    for tied in [false, true] {
        let balanced = planned("\"balanced\"", tied, r#"{"stage": 1}"#).unwrap();
        assert_eq!(balanced.units().iter().filter(|unit| unit.stage.0 == 0).count(), 5 + usize::from(tied));
        // From 3 on the file's reader refuses what is left to costs, whatever the split would be.
        for unit_layers in ["0.5", "1", "2"] {
            let zero = format!(r#"{{"stage": 3, "unit_layers": {unit_layers}}}"#);
            let [by_cost, by_hand] =
                ["\"balanced\"", "[5, 1]"].map(|partition| planned(partition, tied, &zero).err());
            let is_refused = |error: &Option<String>| {
                let headline =
                    "ZeRO-3 with one unit for all layers of a rank is incompatible with pipeline parallelism";
                error.as_ref().inspect(|error| assert!(error.contains(headline), "{error}")).is_some()
            };
            assert_eq!(is_refused(&by_cost), is_refused(&by_hand), "tied: {tied}, {zero}: {by_cost:?}");
            let is_lone = unit_layers != "0.5" && !tied;
            assert_eq!(is_refused(&by_hand), is_lone, "tied: {tied}, {zero}");
            num_refused += usize::from(is_refused(&by_hand));
        }
    }
    assert_eq!(num_refused, 2);
    // Several layers in one unit are too many, also beside a tied weight.
    let zero = r#"{"stage": 3, "unit_layers": 2}"#;
    assert!(planned("[4, 2]", true, zero).is_err());
}
