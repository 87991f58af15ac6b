//! Keys by which users ask for other inputs than tokens, for masks of their own, and for a way to load a model.

use super::{ForeignKey, LOADING, Meaning, Off, Offer};

const INPUTS: &str = "inputs beside tokens in a run file";
const PROGRAM: &str =
    "remove it, and put the encoder in front of the model in a program of your own: docs/inputs.md has one";

foreign_keys! { MODEL:
    hint "low_cpu_mem_usage": LOADING;
    never "audio_config" unless Null: INPUTS, PROGRAM;
    never "embedder" unless Null: INPUTS, PROGRAM;
    never "encoder" unless Null: INPUTS, PROGRAM;
    never "front" unless Null: INPUTS, PROGRAM;
    never "input_encoder" unless Null: INPUTS, PROGRAM;
    never "mm_projector" unless Null: INPUTS, PROGRAM;
    never "vision_config" unless Null: INPUTS, PROGRAM;
    never "vision_tower" unless Null: INPUTS, PROGRAM;
}

const CAUSAL: &str = "remove it: attention is causal, so tokens behind a sequence's end change nothing before it and need targets that are ignored, no mask; `data.document_attention` keeps documents apart";

foreign_keys! { DATA:
    never "attention_mask" unless Null: "masks of one's own", CAUSAL;
    never "padding_mask" unless Null: "masks of one's own", CAUSAL;
}
