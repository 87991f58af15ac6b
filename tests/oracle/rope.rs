//! transformers: the rotary frequencies of every scaling (`tests/golden/scripts/rope_frequencies.py`).

use std::collections::BTreeSet;

use pipezero_config::{RopeScaling, Yarn};
use serde_json::Value;

use super::golden::{count, floats, list, number, read};

/// transformers computes in f32: a power of the base is off by some units in the last place, and so is the ramp, which a factor of 40
/// makes as many times larger. A wrong formula is off by far more.
const TOLERANCE: f64 = 1e-5;

/// The scaling as a run file has it; what YaRN's scores grow by is worked out where transformers was not given it.
fn scaling(given: &Value) -> RopeScaling {
    let mut given = given.clone();
    if given["rope_type"] == "yarn" {
        let factor = number(&given["factor"]);
        let computed = match given.get("mscale") {
            Some(mscale) => {
                Yarn::attention_factor_of(factor, number(mscale), number(&given["mscale_all_dim"]))
            }
            None => Yarn::default_attention_factor(factor),
        };
        let defaults = [("attention_factor", computed), ("beta_fast", 32.0), ("beta_slow", 1.0)];
        let given = given.as_object_mut().expect("it is an object");
        for (name, value) in defaults {
            given.entry(name).or_insert(value.into());
        }
        given.entry("truncate").or_insert(true.into());
    }
    serde_json::from_value(given).expect("transformers' names are the run file's")
}

#[test]
fn frequencies_are_those_of_transformers() {
    let golden = read("rope_frequencies.json");
    let mut kinds = BTreeSet::new();
    for case in list(&golden["cases"]) {
        let (head_size, seq_length) =
            (count(&case["head_size"]) as usize, count(&case["seq_length"]) as usize);
        let scaling = scaling(&case["scaling"]);
        let rope = scaling.rope(number(&case["base"]), head_size, seq_length);
        let what = format!("{scaling:?} of heads of {head_size}");
        let wanted = floats(&case["frequencies"]);
        assert_eq!(rope.frequencies.len(), wanted.len(), "{what}");
        for (pair, (&own, &wanted)) in rope.frequencies.iter().zip(&wanted).enumerate() {
            let distance = (f64::from(own) / f64::from(wanted) - 1.0).abs();
            // Written so that NaN fails.
            assert!(distance <= TOLERANCE, "{what}, pair {pair}: {own:e} is {distance:.1e} from {wanted:e}");
        }
        let factor = number(&case["attention_factor"]);
        assert!((f64::from(rope.scale) / factor - 1.0).abs() <= 1e-6, "{what}: {} and {factor}", rope.scale);
        kinds.insert((case["scaling"]["rope_type"].to_string(), case["scaling"].get("truncate").is_some()));
    }
    assert_eq!(kinds.len(), 5, "linear, dynamic, llama3, yarn of both kinds: {kinds:?}");
}
