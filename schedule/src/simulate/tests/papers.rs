//! The zero-bubble paper's profiled settings (arXiv:2401.10241, ICLR 2024): the share of its span that the longest rank
//! idles.

use crate::closed_form::{StageTimes, interleaved_makespan};
use crate::generate::{interleaved, one_f_one_b, zb_h1, zb_h2, zb_v};
use crate::order::ComputeOrder;
use crate::simulate::{RankTimes, study};

/// A row of tables 5 and 9, or of table 8: the model; ranks, micro-batches, and stages of a rank when interleaved, one layer
/// each; forward, input gradient, weight gradient and a message in microseconds, of a whole rank; and the rates of 1F1B,
/// interleaved 1F1B, ZB-H1 and ZB-H2, in ten-thousandths.
type Setting = (&'static str, [u32; 3], [u64; 4], [u32; 4]);

/// Rates of table 5, times of table 9.
const TABLE_5: [Setting; 12] = [
    ("1.5B", [8, 24, 3], [18_522, 18_086, 9_337, 601], [2431, 1055, 1585, 1083]),
    ("1.5B", [8, 32, 3], [18_513, 18_086, 9_331, 626], [1985, 818, 1242, 837]),
    ("1.5B", [8, 64, 3], [18_546, 18_097, 9_321, 762], [1240, 443, 674, 444]),
    ("6.2B", [8, 24, 4], [29_718, 29_444, 19_927, 527], [2347, 808, 1323, 698]),
    ("6.2B", [8, 32, 4], [29_802, 29_428, 19_530, 577], [1898, 628, 1045, 559]),
    ("6.2B", [8, 64, 4], [29_935, 29_621, 19_388, 535], [1091, 320, 554, 294]),
    ("14.6B", [16, 48, 3], [11_347, 11_248, 8_132, 377], [2552, 1104, 1397, 672]),
    ("14.6B", [16, 64, 3], [11_307, 11_254, 8_101, 379], [2082, 852, 1088, 516]),
    ("14.6B", [16, 128, 3], [11_325, 11_308, 8_109, 378], [1251, 445, 576, 266]),
    ("28.3B", [32, 96, 2], [10_419, 10_207, 7_715, 408], [2646, 1493, 1421, 641]),
    ("28.3B", [32, 128, 2], [10_408, 10_204, 7_703, 408], [2168, 1164, 1106, 490]),
    ("28.3B", [32, 256, 2], [10_402, 10_248, 7_698, 460], [1352, 624, 594, 257]),
];

/// Rates of table 8, and of ZB-V. The paper prints no times for it; its authors' published settings give them for a stage of
/// ZB-V, half a rank.
const TABLE_8: [(Setting, u32); 9] = [
    (("6.2B", [16, 48, 2], [28_814, 28_760, 19_352, 1_610], [2668, 1499, 1536, 823]), 697),
    (("6.2B", [16, 64, 2], [28_824, 28_786, 19_376, 1_621], [2206, 1169, 1198, 630]), 533),
    (("6.2B", [16, 128, 2], [28_632, 28_612, 19_278, 1_619], [1390, 621, 637, 325]), 274),
    (("14.6B", [24, 72, 2], [13_526, 13_938, 10_502, 755], [2699, 1519, 1439, 628]), 638),
    (("14.6B", [24, 96, 2], [13_566, 13_968, 10_518, 758], [2229, 1184, 1121, 480]), 483),
    (("14.6B", [24, 192, 2], [13_570, 13_980, 10_520, 770], [1403, 630, 595, 247]), 250),
    (("28.3B", [32, 96, 2], [18_916, 19_496, 14_576, 879], [2676, 1509, 1429, 629]), 593),
    (("28.3B", [32, 128, 2], [18_938, 19_488, 14_612, 892], [2204, 1177, 1111, 478]), 451),
    (("28.3B", [32, 256, 2], [18_894, 19_288, 14_386, 887], [1362, 626, 593, 251]), 236),
];

/// In ten-thousandths.
fn rate([forward, backward_input, backward_weight, latency]: [u64; 4], order: &ComputeOrder) -> u32 {
    let times = RankTimes { forward, backward_input, backward_weight, latency };
    (1e4 * study(order, times).unwrap().bubble_rate_longest_rank()).round() as u32
}

fn all_settings() -> impl Iterator<Item = Setting> {
    TABLE_5.into_iter().chain(TABLE_8.map(|(setting, _)| setting))
}

#[test]
fn profiled_settings_have_the_published_rates() {
    for (model, [p, m, _], times, [one_f_one_b_rate, _, h1_rate, h2_rate]) in all_settings() {
        let rates = [one_f_one_b(p, m), zb_h1(p, m), zb_h2(p, m)].map(|order| rate(times, &order.unwrap()));
        assert_eq!(rates, [one_f_one_b_rate, h1_rate, h2_rate], "{model}, p {p}, m {m}");
    }
}

/// The paper searches for its order, setting by setting; the handcrafted one is better in six of nine and nowhere worse by
/// more than 15.
#[test]
fn zb_v_is_as_good_as_published() {
    let ours = [712, 545, 280, 623, 476, 246, 582, 444, 229];
    for (((model, [p, m, _], times, _), published), ours) in TABLE_8.into_iter().zip(ours) {
        assert_eq!(rate(times, &zb_v(p, m).unwrap()), ours, "{model}, m {m}");
        assert!(ours <= published + 15, "{model}, m {m}");
    }
}

/// Interleaved 1F1B takes `2 (p v - 1)` hops beside its computes; the published rates are those of `p` fewer, in every
/// setting. What order has them the paper does not say, so that ours is held against its closed form instead.
#[test]
fn published_rates_of_interleaved_1f1b_are_those_of_p_hops_fewer() {
    for (model, [p, m, v], times, rates) in all_settings() {
        let [forward, input, weight, hop] = times;
        let stage = StageTimes { forward, backward: input + weight, hop: u64::from(v) * hop };
        let form = interleaved_makespan(p, v, m, stage).unwrap();
        let ideal = (u64::from(m * v) * (forward + input + weight)) as f64;
        let idle = |span: u64| (1e4 * (1.0 - ideal / span as f64)).round() as u32;
        assert_eq!(rate(times, &interleaved(p, v, m, p).unwrap()), idle(form), "{model}, m {m}");
        assert_eq!(rates[1], idle(form - u64::from(p) * stage.hop), "{model}, m {m}");
    }
}
