//! NVIDIA's own NCCL, as far as it goes without a GPU: it is found, has a version, makes ids and explains errors. The device is a fake GPU,
//! of which it knows nothing (`benches/gpu/real_nccl.py` starts this).

use std::env;
use std::thread;
use std::time::{Duration, Instant};

use pipezero_models::queue::{Cuda, F32Products, NcclId, NoNccl, nccl_version};

/// Set where the library is NVIDIA's.
const REAL: &str = "PIPEZERO_REAL_NCCL";

#[test]
#[ignore = "needs NVIDIA's NCCL and the fake GPU"]
fn nvidia_s_library_has_a_version_makes_ids_and_explains_errors() {
    let Some(version) = env::var_os(REAL) else { return };
    assert_eq!(nccl_version().expect("a library"), version.to_string_lossy());
    let [one, other] = [NcclId::new(), NcclId::new()].map(|id| id.expect("an id"));
    assert_ne!(one, other);
    assert!(one.0.iter().any(|&byte| byte != 0));
    // It finds no driver of its own, at once or when it is asked again.
    let gpu = Cuda::open(0, F32Products::Whole).expect("the fake GPU");
    let start = Instant::now();
    let joined = gpu.join_nccl(&one, [0, 1], 1).and_then(|joining| {
        while !joining.poll()? {
            assert!(start.elapsed() < Duration::from_secs(60), "it says so in time");
            thread::yield_now();
        }
        Ok(())
    });
    let refused = joined.expect_err("there is no GPU");
    let NoNccl::Refused { reason, .. } = &refused else { panic!("{refused}") };
    assert!(reason.contains("cuda error"), "{refused}");
    println!("figure: NCCL {}: {refused}", version.to_string_lossy());
}
