//! Which sizes of a kind of message are probed.

use pipezero_models::ElementType;

use pipezero_partition::ShardLayout;
use pipezero_plan::costs::MessageTimes;

/// The smallest: below it a message costs what sending anything costs.
const LEAST_BYTES: u64 = 4096;

/// Steps between sizes, and how far beyond the run's largest they go: units of four layers from a run of units of one.
const FACTOR: u64 = 4;

/// The run's own sizes, which say how a probe compares with the run, and after them powers of four up to the first that is at
/// least four times the run's largest, without those that lie near one of its own. Both ascending.
pub(super) fn to_probe(measured: &MessageTimes, element_type: ElementType) -> Vec<u64> {
    let own: Vec<u64> = measured.sizes.iter().map(|size| size.bytes).collect();
    let most = own.iter().max().map_or(0, |largest| largest.saturating_mul(FACTOR));
    let mut others = vec![LEAST_BYTES];
    while let Some(larger) =
        others.last().filter(|last| **last < most).and_then(|last| last.checked_mul(FACTOR))
    {
        others.push(larger);
    }
    let is_near = |bytes: u64| own.iter().any(|&own| own < 2 * bytes && bytes < own.saturating_mul(2));
    others.retain(|&bytes| !is_near(bytes));
    let padded = others.into_iter().map(|bytes| padded(measured, element_type.num_bytes() as u64, bytes));
    own.iter().copied().chain(padded).collect()
}

/// A collective's parts are equal and aligned, as those of a unit are.
fn padded(measured: &MessageTimes, element_bytes: u64, bytes: u64) -> u64 {
    if measured.kind.is_transfer() {
        return bytes;
    }
    let layout = ShardLayout::new((bytes / element_bytes) as usize, measured.ranks as usize);
    layout.padded_len() as u64 * element_bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipezero_plan::costs::MessageKind;
    use pipezero_plan::testing::sized;

    fn probed(kind: MessageKind, ranks: u64, element_type: ElementType, own: &[u64]) -> Vec<u64> {
        let sizes = own.iter().map(|&bytes| sized(bytes, [1, 0, 1, 1])).collect();
        to_probe(&MessageTimes { kind, ranks, sizes }, element_type)
    }

    #[test]
    fn sizes_go_from_4_kib_to_four_times_the_largest() {
        const KIB: u64 = 1024;
        let activation = |own: &[u64]| probed(MessageKind::Activation, 2, ElementType::F32, own);
        // 64 KiB lies near 100,000 bytes.
        assert_eq!(activation(&[100_000]), [100_000, 4 * KIB, 16 * KIB, 256 * KIB, 1024 * KIB]);
        // Twice a power of four is near none.
        assert_eq!(activation(&[8 * KIB]), [8 * KIB, 4 * KIB, 16 * KIB, 64 * KIB]);
        assert_eq!(activation(&[64 * KIB]), [64 * KIB, 4 * KIB, 16 * KIB, 256 * KIB]);
        assert_eq!(activation(&[256, 768]), [256, 768, 4 * KIB]);
        assert_eq!(activation(&[4 * KIB, 20_000]), [4 * KIB, 20_000, 64 * KIB, 256 * KIB]);
        // Sizes that no machine has are no endless loop.
        assert_eq!(activation(&[u64::MAX]).last(), Some(&(1 << 62)));
    }

    #[test]
    fn parts_of_collectives_are_equal_and_aligned() {
        for element_type in [ElementType::F32, ElementType::Bf16] {
            for ranks in 1..6 {
                let element_bytes = element_type.num_bytes() as u64;
                for bytes in probed(MessageKind::Unshard, ranks, element_type, &[]) {
                    assert!(bytes.is_multiple_of(16 * element_bytes * ranks));
                    assert!((LEAST_BYTES..LEAST_BYTES + 16 * element_bytes * ranks).contains(&bytes));
                }
            }
        }
    }
}
