//! Devices by name: their peak rates from data sheets, and what share of them a training step achieves.
//!
//! Peaks are dense: data sheets also give twice as much "with sparsity". A share is one figure for a whole kind of work,
//! which is where an analytic model stops; for more, measure.
//!
//! | | bf16 / TF32 / f32 TFLOP/s | memory | near, each way | far, each way | source |
//! |---|---|---|---|---|---|
//! | H100 SXM | 989.4 / 494.7 / 66.9 | 3.35 TB/s | NVLink 4, 450 GB/s | 400 Gb/s | NVIDIA H100 data sheet; DGX H100: a ConnectX-7 for each GPU |
//! | H200 | 989.4 / 494.7 / 66.9 | 4.8 TB/s | NVLink 4, 450 GB/s | 400 Gb/s | NVIDIA H200 data sheet |
//! | A100 80GB SXM | 312 / 156 / 19.5 | 2.039 TB/s | NVLink 3, 300 GB/s | 200 Gb/s | NVIDIA A100 data sheet; DGX A100: a ConnectX-6 for each GPU |
//!
//! - Compute achieves a half. End to end, Megatron-LM's README reports 41 to 49 % of an H100's peak, with communication and
//!   bubbles in it; on A100s, arXiv:2104.04473 (table 1) reports 44 to 52 %.
//! - Memory achieves 0.8, as streaming benchmarks do.
//! - Near links achieve 0.8 and far ones 0.9 of their peak in large collectives, as `nccl-tests` reports bus bandwidth.
//! - A collective's latency is NCCL's own model (`src/graph/tuning.cc`, ring, simple protocol): 8.4 us, and 3.4 us for each
//!   step over NVLink or 14 us over a network.

use std::collections::BTreeMap;

use pipezero_config::Precision;

use super::core_times::CoreTimes;

/// What an analytic model knows of a device. Rates are those that are achieved.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceSpec {
    /// Its name, as results print it.
    pub name: String,
    /// Floating-point operations a second of matrix products in 16 bits; a multiply-add counts two.
    pub half_flops_per_s: f64,
    /// Floating-point operations a second of matrix products whose factors are rounded to TF32.
    pub tf32_flops_per_s: f64,
    /// Floating-point operations a second of matrix products in f32.
    pub f32_flops_per_s: f64,
    /// The share of the peak that these rates are.
    pub compute_share: f64,
    /// Bytes a second from and to its memory.
    pub memory_bytes_per_s: f64,
    /// Bytes of a GPU's memory.
    pub memory_bytes: Option<u64>,
    /// Of a CPU the cores, which ranks share; its rates are those of one.
    pub cores: Option<usize>,
    /// Of a CPU what was measured on one of its cores, if anything was.
    pub measured: Option<CoreTimes>,
    /// Its links.
    pub network: Network,
}

/// The links of a device, where the run file has none (`comm.links`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// Devices of a node, which are near each other.
    pub ranks_per_node: usize,
    /// Links within a node.
    pub near: NetworkLink,
    /// Links between nodes.
    pub far: NetworkLink,
    /// Whether gathers and reductions of a rank share its link.
    pub shared: bool,
}

impl Network {
    /// The link that a message of these ranks goes over, as one rank sees it.
    ///
    /// A ring enters and leaves each of its nodes once, through the interfaces of all its ranks there (NCCL makes channels
    /// for them); of its steps only those from node to node are far.
    pub(super) fn ring(&self, ranks: &[usize]) -> NetworkLink {
        let mut on_node: BTreeMap<usize, usize> = BTreeMap::new();
        for rank in ranks {
            *on_node.entry(rank / self.ranks_per_node).or_default() += 1;
        }
        let (num_nodes, num_steps) = (on_node.len(), ranks.len().saturating_sub(1));
        if num_nodes < 2 {
            return self.near;
        }
        let fewest = on_node.into_values().min().unwrap_or(1);
        let num_far = num_nodes - 1;
        let steps_ns = num_far as f64 * self.far.step_ns + (num_steps - num_far) as f64 * self.near.step_ns;
        NetworkLink {
            bytes_per_s: self.near.bytes_per_s.min(fewest as f64 * self.far.bytes_per_s),
            base_ns: self.far.base_ns,
            step_ns: steps_ns / num_steps as f64,
        }
    }
}

/// One class of links.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetworkLink {
    /// Bytes that a rank sends in a second.
    pub bytes_per_s: f64,
    /// Latency of a message, whatever it is.
    pub base_ns: f64,
    /// Latency of each step of a collective: one less than ranks around a ring.
    pub step_ns: f64,
}

/// The share of its peak that matrix products achieve on a GPU.
const GPU_COMPUTE: f64 = 0.5;
/// The share of its peak that memory achieves.
const GPU_MEMORY: f64 = 0.8;
const NEAR: f64 = 0.8;
const FAR: f64 = 0.9;

/// Peak rates of a GPU with eight to a node.
#[derive(Clone, Copy)]
struct Gpu {
    key: &'static str,
    name: &'static str,
    half_tflops: f64,
    tf32_tflops: f64,
    f32_tflops: f64,
    memory_gb_per_s: f64,
    memory_gib: u64,
    near_gb_per_s: f64,
    far_gb_per_s: f64,
}

const H100: Gpu = Gpu {
    key: "h100",
    name: "H100 SXM",
    half_tflops: 989.4,
    tf32_tflops: 494.7,
    f32_tflops: 66.9,
    memory_gb_per_s: 3350.0,
    memory_gib: 80,
    near_gb_per_s: 450.0,
    far_gb_per_s: 50.0,
};

/// The same processor with other memory.
const H200: Gpu = Gpu { key: "h200", name: "H200", memory_gb_per_s: 4800.0, memory_gib: 140, ..H100 };

const A100: Gpu = Gpu {
    key: "a100",
    name: "A100 80GB SXM",
    half_tflops: 312.0,
    tf32_tflops: 156.0,
    f32_tflops: 19.5,
    memory_gb_per_s: 2039.0,
    memory_gib: 80,
    near_gb_per_s: 300.0,
    far_gb_per_s: 25.0,
};

/// A core's clock, Hz: between base and boost of server processors of the last years.
const CPU_CLOCK: f64 = 3e9;
/// The share of its peak that `gemm` achieves on matrices of a GPT's sizes.
const CPU_COMPUTE: f64 = 0.7;
/// Bytes a second that a core streams from memory.
const CPU_MEMORY: f64 = 8e9;
/// Bytes a second that a core copies, each read once and written once.
const CPU_COPY: f64 = CPU_MEMORY / 2.0;
/// What it takes until a thread that slept runs again, nanoseconds.
const CPU_WAKE_NS: f64 = 30_000.0;

impl DeviceSpec {
    /// Whether it is a GPU, as `"device": "cuda"` asks for.
    pub fn is_gpu(&self) -> bool {
        self.cores.is_none()
    }

    /// The names that [`DeviceSpec::by_name`] knows.
    pub const NAMES: [&str; 4] = [H100.key, H200.key, A100.key, "cpu"];

    /// A device by its name, in any case; `cpu` is [`DeviceSpec::this_cpu`].
    pub fn by_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        if name == "cpu" {
            return Some(Self::this_cpu());
        }
        [H100, H200, A100].into_iter().find(|gpu| gpu.key == name).map(Gpu::device)
    }

    /// A GPU by what its driver calls it, as `NVIDIA H100 80GB HBM3`; `None` of one whose rates are not known, such as those for PCIe.
    pub fn of_gpu(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let mut words = name.split([' ', '-']);
        if words.clone().any(|word| matches!(word, "pcie" | "nvl")) {
            return None;
        }
        words.find_map(|word| [H100, H200, A100].into_iter().find(|gpu| gpu.key == word)).map(Gpu::device)
    }

    /// A core of this host by the width of its vectors, at a clock that is assumed: nothing is measured.
    pub fn this_cpu() -> Self {
        let (vectors, flops_per_cycle) = vectors();
        let flops = flops_per_cycle * CPU_CLOCK * CPU_COMPUTE;
        // Ranks are threads that share memory: a message is a copy.
        let link = NetworkLink { bytes_per_s: CPU_COPY, base_ns: CPU_WAKE_NS, step_ns: 0.0 };
        Self {
            name: format!("this CPU ({vectors})"),
            // 16 bits are widened and computed in f32.
            half_flops_per_s: flops,
            tf32_flops_per_s: flops,
            f32_flops_per_s: flops,
            compute_share: CPU_COMPUTE,
            memory_bytes_per_s: CPU_MEMORY,
            memory_bytes: None,
            cores: Some(std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)),
            measured: None,
            network: Network { ranks_per_node: usize::MAX, near: link, far: link, shared: false },
        }
    }

    /// The same with what was measured on one of its cores in place of what is assumed. No choice of a plan may depend on it.
    pub fn with_measured(self, measured: CoreTimes) -> Self {
        let CoreTimes { flops_per_s, copied_bytes_per_s, .. } = measured;
        // What is copied is read once and written once.
        let link = NetworkLink { bytes_per_s: copied_bytes_per_s / 2.0, ..self.network.near };
        Self {
            half_flops_per_s: flops_per_s,
            tf32_flops_per_s: flops_per_s,
            f32_flops_per_s: flops_per_s,
            memory_bytes_per_s: copied_bytes_per_s,
            network: Network { near: link, far: link, ..self.network },
            measured: Some(measured),
            ..self
        }
    }

    /// A core for each rank, of a CPU that is the same on every host: for figures that nobody asked a device for, and that hosts must not
    /// change.
    pub fn nominal_cpu() -> Self {
        let flops = 32.0 * CPU_CLOCK * CPU_COMPUTE;
        Self {
            name: "nominal CPU cores".to_owned(),
            half_flops_per_s: flops,
            tf32_flops_per_s: flops,
            f32_flops_per_s: flops,
            cores: None,
            ..Self::this_cpu()
        }
    }

    /// The GPU that the driver calls so, such as `NVIDIA H100 80GB HBM3`. Variants on cards (PCIe, NVL) have other rates.
    pub fn by_driver_name(name: &str) -> Option<Self> {
        let words: Vec<String> = name.to_ascii_lowercase().split([' ', '-']).map(str::to_owned).collect();
        let has = |word: &str| words.iter().any(|found| found == word);
        let gpu = [H100, H200, A100].into_iter().find(|gpu| has(gpu.key))?;
        (!has("pcie") && !has("nvl")).then(|| gpu.device())
    }

    /// What data sheets say: [`DeviceSpec::flops_per_s`] is a share of it.
    pub fn peak_flops_per_s(&self, precision: Precision) -> f64 {
        self.flops_per_s(precision) / self.compute_share
    }

    /// As [`DeviceSpec::flops_per_s`], of attention, which TF32 leaves in f32.
    pub(super) fn attention_flops_per_s(&self, precision: Precision) -> f64 {
        match precision {
            Precision::Tf32 => self.f32_flops_per_s,
            _ => self.flops_per_s(precision),
        }
    }

    /// Floating-point operations a second of matrix products in a precision.
    pub fn flops_per_s(&self, precision: Precision) -> f64 {
        match precision {
            Precision::F32 => self.f32_flops_per_s,
            Precision::Tf32 => self.tf32_flops_per_s,
            Precision::Bf16 | Precision::Fp16(_) => self.half_flops_per_s,
        }
    }
}

impl Gpu {
    fn device(self) -> DeviceSpec {
        const TERA: f64 = 1e12;
        const GIGA: f64 = 1e9;
        let link = |bytes_per_s, step_ns| NetworkLink { bytes_per_s, base_ns: 8_400.0, step_ns };
        DeviceSpec {
            name: self.name.to_owned(),
            half_flops_per_s: self.half_tflops * TERA * GPU_COMPUTE,
            tf32_flops_per_s: self.tf32_tflops * TERA * GPU_COMPUTE,
            f32_flops_per_s: self.f32_tflops * TERA * GPU_COMPUTE,
            compute_share: GPU_COMPUTE,
            memory_bytes_per_s: self.memory_gb_per_s * GIGA * GPU_MEMORY,
            memory_bytes: Some(self.memory_gib << 30),
            cores: None,
            measured: None,
            network: Network {
                ranks_per_node: 8,
                near: link(self.near_gb_per_s * GIGA * NEAR, 3_400.0),
                far: link(self.far_gb_per_s * GIGA * FAR, 14_000.0),
                shared: true,
            },
        }
    }
}

/// The widest vectors that this processor has, and the f32 operations of a cycle with two multiply-add units for them.
#[cfg(target_arch = "x86_64")]
fn vectors() -> (&'static str, f64) {
    if std::arch::is_x86_feature_detected!("avx512f") {
        ("AVX-512", 64.0)
    } else if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        ("AVX2", 32.0)
    } else {
        // A multiplication and an addition, each of four.
        ("SSE2", 8.0)
    }
}

/// 128-bit vectors with two multiply-add units.
#[cfg(not(target_arch = "x86_64"))]
fn vectors() -> (&'static str, f64) {
    ("128-bit vectors", 16.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_known_by_what_the_driver_calls_them() {
        let peak =
            |name| DeviceSpec::by_driver_name(name).map(|gpu| gpu.peak_flops_per_s(Precision::Bf16) / 1e12);
        for (name, tflops) in [
            ("NVIDIA H100 80GB HBM3", Some(989.4)),
            ("NVIDIA H200", Some(989.4)),
            ("NVIDIA A100-SXM4-80GB", Some(312.0)),
            ("NVIDIA H100 PCIe", None),
            ("NVIDIA H100 NVL", None),
            ("NVIDIA GeForce RTX 4090", None),
            ("CPU", None),
        ] {
            assert_eq!(
                peak(name).map(|tflops| (tflops * 10.0_f64).round()),
                tflops.map(|tflops| tflops * 10.0),
                "{name}"
            );
        }
    }

    #[test]
    fn every_name_is_of_a_device_in_any_case() {
        for name in DeviceSpec::NAMES {
            let device = DeviceSpec::by_name(name).unwrap();
            assert_eq!(DeviceSpec::by_name(&name.to_uppercase()), Some(device));
        }
        for name in ["", "h1000", "gpu", "h100 sxm"] {
            assert_eq!(DeviceSpec::by_name(name), None, "{name}");
        }
    }

    #[test]
    fn gpus_are_known_by_what_drivers_call_them() {
        for (name, key) in [
            ("NVIDIA H100 80GB HBM3", Some("h100")),
            ("NVIDIA A100-SXM4-80GB", Some("a100")),
            ("NVIDIA H200", Some("h200")),
            ("NVIDIA A100-PCIE-40GB", None),
            ("NVIDIA H100 PCIe", None),
            ("NVIDIA H100 NVL", None),
            ("NVIDIA GeForce RTX 4090", None),
            ("", None),
        ] {
            assert_eq!(DeviceSpec::of_gpu(name), key.and_then(DeviceSpec::by_name), "{name}");
        }
    }

    #[test]
    fn a_ring_uses_the_interfaces_of_all_its_ranks_on_a_node() {
        let network = DeviceSpec::by_name("h100").unwrap().network;
        let (near, far) = (network.near, network.far);
        let ring = |ranks: &[usize]| network.ring(ranks);
        assert_eq!(ring(&[3]), near);
        assert_eq!(ring(&[0, 1, 7]), near);
        assert_eq!(ring(&[7, 8]), far, "two ranks, two nodes");
        assert_eq!(ring(&[0, 8, 16, 24]), far, "one rank on each node");
        // Two on each of two nodes: two interfaces; of three steps one is far.
        let two = ring(&[0, 1, 8, 9]);
        assert_eq!((two.bytes_per_s, two.base_ns), (2.0 * far.bytes_per_s, far.base_ns));
        assert_eq!(two.step_ns, (far.step_ns + 2.0 * near.step_ns) / 3.0);
        // The node with the fewest decides.
        assert_eq!(ring(&[0, 1, 8]).bytes_per_s, far.bytes_per_s);
        // All eight of each: no faster than the links within.
        let whole: Vec<usize> = (0..16).collect();
        assert_eq!(ring(&whole).bytes_per_s, near.bytes_per_s.min(8.0 * far.bytes_per_s));
    }

    /// What the model's readers expect of an H100: half of 989 TFLOP/s, and 8.4 us + 3.4 us a step over NVLink.
    #[test]
    fn rates_are_the_achieved_share_of_the_data_sheet() {
        let h100 = DeviceSpec::by_name("h100").unwrap();
        // Products of decimals, which f64 rounds.
        let is_close = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-12;
        assert!(is_close(h100.flops_per_s(Precision::Bf16), 494.7e12));
        assert!(is_close(h100.flops_per_s(Precision::Tf32), 247.35e12));
        assert!(is_close(h100.flops_per_s(Precision::F32), 33.45e12));
        assert!(
            is_close(h100.network.near.bytes_per_s, 360e9) && is_close(h100.network.far.bytes_per_s, 45e9)
        );
        let (h200, a100) = (DeviceSpec::by_name("h200").unwrap(), DeviceSpec::by_name("a100").unwrap());
        assert!(
            h200.memory_bytes_per_s > h100.memory_bytes_per_s
                && a100.half_flops_per_s < h100.half_flops_per_s
        );
    }
}
