use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::kernels::dropout::{Dropout, Place};
use crate::kernels::rope::{Rope, Turn};
use crate::micro_batch::{MaskKey, MicroBatchShape};

const TYPES: [ElementType; 3] = [ElementType::F32, ElementType::Bf16, ElementType::F16];

#[test]
fn values_that_every_type_has_survive_every_way() {
    let values = [0.0, 1.0, -2.5, 448.0, f32::INFINITY];
    let source = Buffer::from_vec(values.to_vec()).unwrap();
    for (first, second) in TYPES.into_iter().flat_map(|first| TYPES.map(|second| (first, second))) {
        let [mut a, mut b] = [first, second].map(|of| Buffer::zeros_of(6, of).unwrap());
        let mut back = Buffer::zeros(6).unwrap();
        Host.copy(source.view(), a.view_mut().range(0..5));
        Host.copy(a.view().range(0..5), b.view_mut().range(0..5));
        Host.copy(b.view().range(0..5), back.view_mut().range(0..5));
        assert_eq!(back.host()[..5], values, "{first:?} {second:?}");
        assert_eq!(back.host()[5], 0.0);
        assert_eq!((b.element_type(), b.len()), (second, 6));
    }
}

#[test]
fn a_range_goes_to_its_place_and_nowhere_else() {
    for (first, second) in TYPES.into_iter().flat_map(|first| TYPES.map(|second| (first, second))) {
        let source = Buffer::from_vec(vec![1.0_f32, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let [mut a, mut b] = [first, second].map(|of| Buffer::zeros_of(6, of).unwrap());
        Host.copy(source.view(), a.view_mut().range(1..6));
        Host.copy(a.view().range(2..4), b.view_mut().range(3..5));
        let mut wide = Buffer::zeros(6).unwrap();
        Host.copy(b.view(), wide.view_mut());
        assert_eq!(wide.host()[..], [0.0, 0.0, 0.0, 2.0, 3.0, 0.0], "{first:?} {second:?}");
    }
}

/// Other values may lie in a buffer, packed, so even a signalling NaN is moved as it is.
#[test]
fn a_copy_between_equal_types_keeps_every_bit() {
    let patterns: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
    let source = Buffer::from_vec(patterns.clone()).unwrap();
    let mut copy = Buffer::zeros_of(patterns.len(), ElementType::Bf16).unwrap();
    Host.copy(source.view(), copy.view_mut());
    let bits = |values: &[bf16]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(copy.host_as()), bits(&patterns));
}

/// An operand of a kernel: how many elements it has, and which of one less and one more are a mistake.
#[derive(Clone, Copy)]
struct Operand {
    len: usize,
    element: ElementType,
    refused: &'static [isize],
}

const fn of(element: ElementType, len: usize) -> Operand {
    Operand { len, element, refused: &[-1, 1] }
}

const fn f32s(len: usize) -> Operand {
    of(ElementType::F32, len)
}

const fn u32s(len: usize) -> Operand {
    of(ElementType::U32, len)
}

/// More are no mistake.
const fn workspace(len: usize) -> Operand {
    Operand { refused: &[-1], ..f32s(len) }
}

/// Runs a kernel on operands that fit, and then on those of which one does not.
fn check<const R: usize, const W: usize>(
    kernel: &str,
    reads: [Operand; R],
    writes: [Operand; W],
    run: impl for<'a> Fn([View<'a>; R], [ViewMut<'a>; W]),
) {
    let runs = |wrong: Option<(usize, isize)>| {
        let mut operands = reads.iter().chain(&writes).copied().enumerate().map(|(index, operand)| {
            let change = wrong.map_or(0, |(at, change)| if at == index { change } else { 0 });
            Buffer::zeros_of(operand.len.strict_add_signed(change), operand.element).unwrap()
        });
        let reads: [Buffer; R] = std::array::from_fn(|_| operands.next().unwrap());
        let mut writes: [Buffer; W] = std::array::from_fn(|_| operands.next().unwrap());
        let views = (reads.each_ref().map(Buffer::view), writes.each_mut().map(Buffer::view_mut));
        catch_unwind(AssertUnwindSafe(|| run(views.0, views.1))).is_ok()
    };
    assert!(runs(None), "{kernel}");
    for (index, operand) in reads.iter().chain(&writes).enumerate() {
        for &change in operand.refused {
            assert!(
                !runs(Some((index, change))),
                "{kernel} takes operand {index} of {} {change:+}",
                operand.len
            );
        }
    }
}

#[test]
fn a_kernel_refuses_operands_of_other_sizes() {
    let linear = LinearShape { num_rows: 6, num_inputs: 4, num_outputs: 5 };
    let attention =
        AttentionShape { num_sequences: 2, seq_length: 3, num_heads: 2, num_kv_heads: 1, head_size: 2 };
    let spaces = [attention.forward_workspace(), attention.backward_workspace()].map(workspace);
    let (key, shape) = (
        MaskKey { seed: 0, step: 0, first_sequence: 0 },
        MicroBatchShape { num_sequences: 2, seq_length: 3 },
    );
    let masks = Dropout::new(0.5, Place::Embedding).unwrap().masks(key, shape);
    let sgd = SgdStep { gradient_scale: 1.0, lr: 0.1, weight_decay: 0.0 };
    let (betas, eps) = ((0.9, 0.99), 1e-8);
    let adamw = AdamWStep { gradient_scale: 1.0, lr: 0.1, betas, eps, weight_decay: 0.0, step: 1 };
    let (add, bf16, loss) = (WriteMode::Add, of(ElementType::Bf16, 6), u32s(LossSum::NUM_WORDS));

    check("copy", [f32s(6)], [f32s(6)], |[x], [y]| Host.copy(x, y));
    check("convert", [f32s(6)], [bf16], |[x], [y]| Host.copy(x, y));
    check("upload", [], [u32s(6)], |[], [x]| Host.upload(&[1; 6], x));
    check("download", [f32s(6)], [], |[x], []| {
        Host.download_floats(x, &mut [0.0; 6]).unwrap();
    });
    check("linear", [f32s(24), f32s(20)], [f32s(30)], |[x, weight], [y]| {
        Host.linear(linear, x, weight, Onto::Nothing, y);
    });
    check("linear onto a bias", [f32s(24), f32s(20), f32s(5)], [f32s(30)], |[x, weight, bias], [y]| {
        Host.linear(linear, x, weight, Onto::Bias(bias), y);
    });
    let reads = [f32s(24), f32s(20), f32s(5), f32s(30)];
    check("linear onto a residual", reads, [f32s(30)], |[x, weight, bias, residual], [y]| {
        Host.linear(linear, x, weight, Onto::BiasAndResidual { bias, residual }, y);
    });
    let reads = [f32s(24), f32s(20), f32s(5)];
    check(
        "linear onto a residual alone",
        [f32s(24), f32s(20), f32s(30)],
        [f32s(30)],
        |[x, weight, residual], [y]| {
            Host.linear(linear, x, weight, Onto::Residual(residual), y);
        },
    );
    check("linear_gelu", reads, [f32s(30), f32s(30)], |[x, weight, bias], [sum, y]| {
        Host.linear_gelu(linear, x, Affine { weight, bias }, sum, y);
    });
    check(
        "linear_gelu_backward_input",
        [f32s(30), f32s(20)],
        [f32s(24), f32s(24)],
        |[dy, weight], [x, dx]| {
            Host.linear_gelu_backward_input(linear, dy, weight, x, dx);
        },
    );
    check("linear_backward_input", [f32s(30), f32s(20)], [f32s(24)], |[dy, weight], [dx]| {
        Host.linear_backward_input(linear, dy, weight, dx, add);
    });
    check("linear_backward_weight", [f32s(30), f32s(24)], [f32s(20)], |[dy, x], [dweight]| {
        Host.linear_backward_weight(linear, dy, x, dweight, add);
    });
    // Rows of one element more are rows too.
    let dbias = Operand { refused: &[-1], ..f32s(5) };
    check("bias_backward", [f32s(30)], [dbias], |[dy], [dbias]| Host.bias_backward(dy, dbias, add));
    check("gelu", [f32s(24)], [f32s(24)], |[x], [y]| Host.gelu(x, y));
    check("gelu_backward", [], [f32s(24), f32s(24)], |[], [x, dy]| Host.gelu_backward(x, dy));
    check(
        "layer_norm",
        [f32s(24), f32s(4), f32s(4)],
        [f32s(24), f32s(12)],
        |[x, weight, bias], [y, kept]| {
            Host.norm(Norm::GPT2, x, Affine { weight, bias }, y, kept);
        },
    );
    check("norm_statistics", [f32s(24)], [f32s(12)], |[x], [kept]| {
        Host.norm_statistics(Norm::GPT2, x, 4, kept)
    });
    let reads = [f32s(24), f32s(4), f32s(4), f32s(12)];
    check("norm_again", reads, [f32s(24)], |[x, weight, bias, kept], [y]| {
        Host.norm_again(Norm::GPT2, x, Affine { weight, bias }, kept, y);
    });
    let reads = [f32s(24), f32s(4), f32s(12), f32s(24)];
    check("norm_backward_input", reads, [f32s(24)], |[x, weight, kept, dy], [dx]| {
        Host.norm_backward_input(Norm::GPT2, NormGradient { x, statistics: kept, dy }, weight, dx, add);
    });
    let reads = [f32s(24), f32s(12), f32s(24)];
    check("norm_backward_weight", reads, [f32s(4), f32s(4)], |[x, kept, dy], [dweight, dbias]| {
        Host.norm_backward_weight(Norm::GPT2, NormGradient { x, statistics: kept, dy }, dweight, dbias, add);
    });
    check("swiglu", [f32s(48)], [f32s(24)], |[x], [y]| Host.swiglu(x, y, 4));
    check("swiglu_backward", [], [f32s(48), f32s(24)], |[], [x, dy]| Host.swiglu_backward(x, dy, 4));
    let rope = Rope { frequencies: [1.0].into(), scale: 1.0 };
    check("rope", [u32s(6)], [f32s(48)], |[starts], [qkv]| {
        let rotation = Rotation { rope: &rope, turn: Turn::Forward, document_starts: Some(starts) };
        Host.rope(attention, rotation, qkv);
    });
    check("head_norm", [f32s(48), f32s(2), f32s(2)], [f32s(48)], |[x, queries, keys], [y]| {
        Host.head_norm(attention, 1e-6, x, HeadWeights { queries, keys }, y);
    });
    check(
        "head_norm_backward_input",
        [f32s(48), f32s(2), f32s(2)],
        [f32s(48)],
        |[dy, queries, keys], [x]| {
            Host.head_norm_backward_input(attention, 1e-6, x, HeadWeights { queries, keys }, dy);
        },
    );
    check("head_norm_backward_weight", [f32s(48); 2], [f32s(2); 2], |[x, dy], dweights| {
        Host.head_norm_backward_weight(attention, 1e-6, x, dy, dweights, add);
    });
    let (reads, writes) = ([f32s(48), u32s(6)], [f32s(24), f32s(12), spaces[0]]);
    check("attention", reads, writes, |[qkv, starts], [out, kept, space]| {
        let mask = AttentionMask { dropout: None, document_starts: Some(starts) };
        Host.attention(attention, mask, qkv, out, kept, space);
    });
    let (reads, writes) = ([f32s(24), f32s(12), f32s(24), u32s(6)], [f32s(48), spaces[1]]);
    check("attention_backward", reads, writes, |[out, log_sum_exp, dout, starts], [qkv, space]| {
        let mask = AttentionMask { dropout: None, document_starts: Some(starts) };
        Host.attention_backward(attention, mask, qkv, Attended { out, log_sum_exp }, dout, space);
    });
    check("dropout", [], [f32s(24)], |[], [x]| Host.dropout(masks, x, 4));
    check("dropout_add_residual", [f32s(24)], [f32s(24)], |[x], [y]| {
        Host.dropout_add_residual(masks, x, y, 4)
    });
    // The table may be a slice of any number of rows.
    let table = Operand { refused: &[], ..f32s(28) };
    check("embedding", [u32s(6), table], [f32s(24)], |[tokens, table], [y]| {
        Host.embedding(tokens, 0, table, y)
    });
    check("embedding_backward", [u32s(6), f32s(24)], [f32s(28)], |[tokens, dy], [dtable]| {
        Host.embedding_backward(tokens, 0, dy, dtable, add);
    });
    check("add_positions", [f32s(16), u32s(6)], [f32s(24)], |[table, starts], [y]| {
        Host.add_positions(in_documents(starts), table, y, 4);
    });
    check("positions_backward", [f32s(24), u32s(6)], [f32s(16)], |[dy, starts], [dtable]| {
        Host.positions_backward(in_documents(starts), dy, dtable, 4, add);
    });
    check("cross_entropy", [f32s(42), u32s(6)], [f32s(18)], |[logits, targets], [kept]| {
        Host.cross_entropy(0, logits, targets, kept);
    });
    check("cross_entropy_loss", [u32s(6)], [f32s(18), loss], |[targets], [kept, loss]| {
        Host.cross_entropy_loss(targets, kept, loss);
    });
    check("cross_entropy_backward", [u32s(6), f32s(18)], [f32s(42)], |[targets, kept], [logits]| {
        Host.cross_entropy_backward(0, logits, targets, kept, 1.0, ElementType::F32);
    });
    check("cross_entropy_backward in bf16", [u32s(6), f32s(18)], [f32s(42)], |[targets, kept], [logits]| {
        Host.cross_entropy_backward(0, logits, targets, kept, 1.0, ElementType::Bf16);
    });
    let counted = [Operand { refused: &[], ..u32s(6) }];
    check("count_targets", counted, [loss], |[targets], [loss]| Host.count_targets(targets, loss));
    check("add", [f32s(6)], [f32s(6)], |[term], [sum]| Host.add(term, sum));
    check("sum_in_order", [f32s(6), f32s(6)], [f32s(6)], |[before, after], [own]| {
        Host.sum_in_order(&[before], own, &[after]);
    });
    let squared = [Operand { refused: &[], ..f32s(6) }];
    check("add_squares", squared, [u32s(NUM_LIMBS)], |[x], [squares]| Host.add_squares(x, squares));
    check("adamw", [f32s(6)], [f32s(6); 3], |[gradients], [parameters, first, second]| {
        Host.adamw(adamw, parameters, gradients, [first, second]);
    });
    check("sgd", [f32s(6)], [f32s(6)], |[gradients], [parameters]| Host.sgd(sgd, parameters, gradients));
    check("sgd_with_momentum", [f32s(6)], [f32s(6); 2], |[gradients], [parameters, state]| {
        Host.sgd_with_momentum(sgd, 0.9, parameters, gradients, state);
    });
}

fn in_documents(starts: View<'_>) -> Positions<'_> {
    Positions { seq_length: 3, document_starts: Some(starts) }
}
