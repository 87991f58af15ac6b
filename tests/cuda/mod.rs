//! A GPU computes what the host computes. These tests need a GPU, or the fake GPU on which the gate runs them:
//!
//! ```console
//! $ cargo test -p tests --test it -- cuda::on_a_device --ignored    # on a host with a GPU
//! ```

mod nccl_faults;
mod nccl_misuse;
mod nccl_processes;
mod on_a_device;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;

use pipezero_config::{DeviceName, Run};
use pipezero_models::queue::{Cuda, F32Products, NoCuda};
use pipezero_plan::Plan;
use pipezero_run::world::{WorldError, world_of};
use tests::{
    Case, FakeGpuSettings, checked_fake_gpu, fake_gpu, in_full, is_unchanged, on_the_fake_gpu,
    run_on_fake_gpu, run_on_fake_gpu_with, small_run,
};

/// Runs tests in several orders of the fake GPU's streams.
fn in_several_orders(folder: &Path, tests: &str, num_devices: usize) {
    let num_orders = match (in_full(), is_unchanged()) {
        (true, _) => 20,
        (false, true) => 1,
        (false, false) => 2,
    };
    for seed in 0..num_orders {
        run_on_fake_gpu(folder, tests, FakeGpuSettings { num_devices, seed, fail_at: None });
    }
}

#[test]
fn kernels_give_what_the_host_gives_on_the_fake_gpu() {
    let Some(folder) = fake_gpu() else { return };
    in_several_orders(folder, "cuda::on_a_device::kernels", 1);
}

#[test]
fn kernels_read_and_write_nothing_but_their_buffers() {
    let Some(folder) = checked_fake_gpu() else { return };
    let settings = FakeGpuSettings { num_devices: 1, seed: 7, fail_at: None };
    run_on_fake_gpu(folder, "cuda::on_a_device::kernels", settings);
}

/// Wherever two streams touch the same memory and one writes it, an event or a wait of the host orders them.
#[test]
fn every_access_of_a_step_is_ordered() {
    let Some(folder) = checked_fake_gpu() else { return };
    for (tests, num_devices) in [("training::every_grid", 2), ("orders", 2), ("state", 1)] {
        let settings = FakeGpuSettings { num_devices, seed: 9, fail_at: None };
        run_on_fake_gpu(folder, &format!("cuda::on_a_device::{tests}"), settings);
    }
}

#[test]
fn grids_train_to_the_same_bits_on_the_fake_gpu() {
    let Some(folder) = fake_gpu() else { return };
    if in_full() {
        in_several_orders(folder, "cuda::on_a_device::training", 1);
    }
    in_several_orders(folder, "cuda::on_a_device::training", 3);
}

#[test]
fn ranks_with_a_gpu_each_train_over_nccl_on_the_fake_gpu() {
    let Some(folder) = fake_gpu() else { return };
    in_several_orders(folder, "cuda::on_a_device::nccl::", 8);
}

#[test]
fn every_call_of_nccl_works_with_one_rank_on_the_fake_gpu() {
    let Some(folder) = fake_gpu() else { return };
    run_on_fake_gpu(
        folder,
        "cuda::on_a_device::nccl_calls",
        FakeGpuSettings { num_devices: 1, seed: 1, fail_at: None },
    );
}

#[test]
fn every_kernel_of_a_step_is_timed_on_the_fake_gpu() {
    let Some(folder) = fake_gpu() else { return };
    let settings = FakeGpuSettings { num_devices: 1, seed: 3, fail_at: None };
    run_on_fake_gpu(folder, "cuda::on_a_device::kernel_times", settings);
}

#[test]
fn no_schedule_hangs_over_nccl_on_the_fake_gpu() {
    let Some(folder) = fake_gpu() else { return };
    in_several_orders(folder, "cuda::on_a_device::nccl_schedules", 8);
}

/// The same steps, where the next operation may have to wait for what the engine relies on: that operations of other lanes begin in any order, and
/// have room.
#[test]
fn a_schedule_hangs_over_nccl_that_keeps_operations_back_on_the_fake_gpu() {
    let Some(folder) = fake_gpu() else { return };
    let settings = FakeGpuSettings { num_devices: 8, seed: 0, fail_at: None };
    let started = [("FAKE_GPU_NCCL_ORDER", "1"), ("FAKE_GPU_NCCL_ROOM", "16")].map(|(name, value)| {
        let mut command = on_the_fake_gpu(folder, "cuda::on_a_device::nccl_schedules", settings);
        command.env(name, value).stdout(Stdio::piped()).stderr(Stdio::piped());
        (name, command.spawn().expect("the test's own program starts"))
    });
    for (name, process) in started {
        let output = process.wait_with_output().expect("it ends");
        let printed = String::from_utf8_lossy(&output.stdout);
        let hangs = "waited 5.0s for the rank's own compute queue";
        assert!(!output.status.success() && printed.contains(hangs), "{name}: {printed}");
    }
}

/// Runs tests in virtual times.
fn in_virtual_times(folder: &Path, tests: &str, variable: (&str, usize)) {
    let home = tempfile::tempdir().unwrap();
    let (times, value) = (home.path().join("times"), variable.1.to_string());
    let variables = [("FAKE_GPU_TIMES", &*times), (variable.0, Path::new(&value))];
    let settings = FakeGpuSettings { num_devices: 6, seed: 11, fail_at: None };
    run_on_fake_gpu_with(folder, &format!("cuda::on_a_device::times::{tests}"), settings, &variables);
}

/// With slow lanes, and with fast ones.
#[test]
fn a_step_over_nccl_takes_the_times_that_the_simulator_says_on_the_fake_gpu() {
    let Some(folder) = fake_gpu() else { return };
    let bytes = if in_full() { vec![32, 256, 4096] } else { vec![128] };
    for bytes in bytes {
        in_virtual_times(folder, "a_step", ("FAKE_GPU_LINK_BYTES", bytes));
    }
}

/// Of gathers, reductions and messages to the next stage. Left out: 1, 2 and 13, which rank 0 receives, since who waits for
/// one at once waits for ever; and 3 and 12, behind which nothing was hidden.
#[test]
fn one_wait_that_comes_too_early_changes_the_times_of_a_step() {
    let Some(folder) = fake_gpu() else { return };
    let messages = if in_full() { (4..12).chain(14..21).collect() } else { vec![4, 9, 15] };
    for message in messages {
        in_virtual_times(folder, "a_wait", ("FAKE_GPU_EARLY_WAIT", message));
    }
}

#[test]
fn gathers_over_nccl_land_in_windows_on_the_fake_gpu() {
    let Some(folder) = fake_gpu() else { return };
    let settings = FakeGpuSettings { num_devices: 4, seed: 6, fail_at: None };
    let windows = [("FAKE_GPU_NCCL_WINDOWS", Path::new("1"))];
    run_on_fake_gpu_with(folder, "cuda::on_a_device::nccl::gathers_of_units", settings, &windows);
    // Where they land in parameters, the fake GPU says so.
    let mut command = on_the_fake_gpu(folder, "cuda::on_a_device::nccl::gathers_after_a_step", settings);
    let output = command.envs(windows).output().expect("the test's own program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("does not land in a window"), "{said}");
}

#[test]
fn an_operation_of_nccl_that_fails_ends_the_run_on_the_fake_gpu() {
    let Some(folder) = fake_gpu() else { return };
    let operations = if in_full() { (1..95).step_by(3).collect() } else { vec![1, 5, 20, 60, 90] };
    for number in operations {
        let settings = FakeGpuSettings { num_devices: 4, seed: number, fail_at: None };
        let number = [("FAKE_GPU_NCCL_FAIL_AT", number.to_string())];
        let variables = number.each_ref().map(|(name, value)| (*name, Path::new(value)));
        run_on_fake_gpu_with(folder, "cuda::on_a_device::nccl::an_operation", settings, &variables);
    }
}

#[test]
fn no_feature_changes_a_bit_on_the_fake_gpu() {
    let Some(folder) = fake_gpu() else { return };
    let settings = FakeGpuSettings { num_devices: 2, seed: 4, fail_at: None };
    run_on_fake_gpu(folder, "cuda::on_a_device::features", settings);
}

#[test]
fn state_goes_between_host_and_device_on_the_fake_gpu() {
    let Some(folder) = fake_gpu() else { return };
    in_several_orders(folder, "cuda::on_a_device::state", 2);
}

#[test]
fn a_run_that_fits_a_gpu_saves_its_state_on_the_fake_gpu() {
    let Some(folder) = fake_gpu() else { return };
    let settings = FakeGpuSettings { num_devices: 1, seed: 3, fail_at: None };
    let memory = [("FAKE_GPU_MEMORY_BYTES", Path::new("16000000"))];
    run_on_fake_gpu_with(folder, "cuda::on_a_device::memory", settings, &memory);
}

/// Each sees some of the devices, and all have the memory of all in common.
#[test]
fn processes_share_the_devices_of_a_host_on_the_fake_gpu() {
    let Some(folder) = fake_gpu() else { return };
    let home = tempfile::tempdir().unwrap();
    let host = home.path().join("host");
    for num_devices in 1..=4 {
        let settings = FakeGpuSettings { num_devices, seed: 5, fail_at: None };
        let host = [("FAKE_GPU_HOST", &*host)];
        run_on_fake_gpu_with(folder, "cuda::on_a_device::processes", settings, &host);
    }
    std::thread::scope(|scope| {
        for (seed, visible) in (0..).zip(["0,1", "1,2", "2,3", "3"]) {
            let settings = FakeGpuSettings { num_devices: 4, seed, fail_at: None };
            let variables = [("FAKE_GPU_HOST", &*host), ("CUDA_VISIBLE_DEVICES", Path::new(visible))];
            scope.spawn(move || {
                run_on_fake_gpu_with(folder, "cuda::on_a_device::failing", settings, &variables);
            });
        }
    });
}

/// The calls of a run are some thousands; the first few hundred open the devices.
#[test]
fn a_call_that_fails_ends_a_run_with_an_error_on_the_fake_gpu() {
    let Some(folder) = fake_gpu() else { return };
    let calls = if in_full() { (1..3000).step_by(7).collect() } else { vec![1, 4, 30, 90, 250, 700, 1300] };
    for number in calls {
        let settings = FakeGpuSettings { num_devices: 2, seed: number, fail_at: Some(number) };
        run_on_fake_gpu(folder, "cuda::on_a_device::failing", settings);
    }
}

/// The library has an algorithm for GELU with a product, and is asked for it.
#[test]
fn products_are_asked_for_with_gelu_and_its_gradient() {
    let Some(folder) = fake_gpu() else { return };
    let home = tempfile::tempdir().unwrap();
    let list = home.path().join("faults");
    let settings = FakeGpuSettings { num_devices: 1, seed: 1, fail_at: None };
    let variables = [("FAKE_GPU_LIST_FAULTS", &*list)];
    run_on_fake_gpu_with(folder, "cuda::on_a_device::kernels::products", settings, &variables);
    // A product is one of the places where a run can go wrong: its sizes, transposes, types, epilogue.
    let places = fs::read_to_string(&list).unwrap();
    for product in ["beta:104x64x48-TN-14-14-gelu ", "beta:48x64x104-NN-2-2-dgelu "] {
        assert!(places.lines().any(|line| line.starts_with(product)), "{product}: {places}");
    }
}

#[test]
fn compiled_kernels_are_kept_on_disk_and_damaged_ones_compiled_again() {
    let Some(folder) = fake_gpu() else { return };
    let home = tempfile::tempdir().unwrap();
    let cache = home.path().join("below/cache");
    let tests = "cuda::on_a_device::kernels::elementwise::conversions";
    let settings = FakeGpuSettings { num_devices: 1, seed: 1, fail_at: None };
    run_on_fake_gpu_with(folder, tests, settings, &[("PIPEZERO_CACHE", &cache)]);
    let files = || {
        let mut paths: Vec<_> = fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    };
    let contents = || files().into_iter().map(|path| fs::read(path).unwrap()).collect::<Vec<_>>();
    // A file that is written again is another file.
    let numbers = || files().iter().map(|path| fs::metadata(path).unwrap().ino()).collect::<Vec<_>>();
    let (written, numbers_of_written) = (contents(), numbers());
    assert_eq!(written.len(), 3, "a program for each type");

    run_on_fake_gpu_with(folder, tests, settings, &[("PIPEZERO_CACHE", &cache)]);
    assert_eq!((contents(), numbers()), (written.clone(), numbers_of_written));

    let [short, changed, _] = &files()[..] else { panic!("three files") };
    fs::write(short, &written[0][..written[0].len() / 2]).unwrap();
    let mut bytes = written[1].clone();
    let last = bytes.len() - 2;
    bytes[last] ^= 1;
    fs::write(changed, bytes).unwrap();
    run_on_fake_gpu_with(folder, tests, settings, &[("PIPEZERO_CACHE", &cache)]);
    assert_eq!(contents(), written);
}

/// On a host with the libraries there is a device, or an error about that.
#[test]
fn what_is_missing_for_a_gpu_is_named_with_its_repair() {
    if let Err(error @ NoCuda::Library { .. }) = Cuda::open(0, F32Products::Whole) {
        let message = error.to_string();
        assert!(message.starts_with("no library `lib") && message.contains("LD_LIBRARY_PATH"), "{message}");
        assert!(message.contains("; install NVIDIA's "), "{message}");
    }
}

/// Said before a device is opened, and not when a run is planned for a cluster.
#[test]
fn more_data_ranks_than_a_gpu_adds_up_are_refused() {
    let case = Case { data: 65, ..Case::ONE_RANK };
    let plan = Plan::even_if_refused(Run { device: DeviceName::Cuda, ..small_run(case) }).unwrap();
    let refused = world_of(&plan).unwrap_err();
    assert!(matches!(refused, WorldError::TooManyTerms { data_degree: 65 }), "{refused}");
}

#[test]
fn a_device_that_kernels_are_not_for_is_named() {
    let Some(folder) = fake_gpu() else { return };
    for (attributes, lack) in
        [("75=7,76=5", "of compute capability 7.5"), ("122=0", "CAN_USE_64_BIT_STREAM_MEM_OPS")]
    {
        let variables = [("FAKE_GPU_ATTRIBUTES", Path::new(attributes)), ("PIPEZERO_LACK", Path::new(lack))];
        let settings = FakeGpuSettings { num_devices: 1, seed: 1, fail_at: None };
        run_on_fake_gpu_with(folder, "cuda::on_a_device::failing::a_device", settings, &variables);
    }
}

/// cudarc would panic at the first call.
#[test]
fn a_library_without_the_functions_that_are_called_is_named() {
    let Some(folder) = fake_gpu() else { return };
    let home = tempfile::tempdir().unwrap();
    for [library, other] in [["libnvrtc.so", "libcublasLt.so"], ["libcublasLt.so", "libnvrtc.so"]] {
        fs::copy(folder.join(other), home.path().join(library)).unwrap();
        let path = [home.path(), folder].map(|folder| folder.to_str().unwrap()).join(":");
        let variables = [("LD_LIBRARY_PATH", Path::new(&path)), ("PIPEZERO_UNUSABLE", Path::new(library))];
        let settings = FakeGpuSettings { num_devices: 1, seed: 1, fail_at: None };
        run_on_fake_gpu_with(folder, "cuda::on_a_device::failing::a_library", settings, &variables);
        fs::remove_file(home.path().join(library)).unwrap();
    }
}
