//! Several processes on the GPUs of one host.

use std::env;
use std::process::Command;

use pipezero_models::Device;
use pipezero_models::element::ElementType;

use super::devices;

const NUM_BYTES: u64 = 64 << 20;

/// What is free on each device that this process sees.
fn free_bytes() -> Vec<u64> {
    let free = |device: &dyn Device| device.memory().unwrap().expect("a GPU has its own memory").free_bytes;
    devices().iter().map(|device| free(&**device)).collect()
}

/// The same in another process, which may see the devices in another order.
fn free_bytes_elsewhere(visible: Option<&str>) -> Vec<u64> {
    let mut command = Command::new(env::current_exe().expect("a test is a program"));
    command.args(["cuda::on_a_device::processes::prints_what_is_free", "--ignored", "--nocapture"]);
    command.envs(visible.map(|list| ("CUDA_VISIBLE_DEVICES", list)));
    let output = command.output().expect("the test's own program starts");
    let printed = String::from_utf8_lossy(&output.stdout);
    let numbers = printed.lines().find_map(|line| line.split_once("free: "));
    let (_, numbers) = numbers.unwrap_or_else(|| panic!("{printed}"));
    numbers.split(' ').map(|number| number.parse().unwrap()).collect()
}

#[test]
#[ignore = "a part of another test"]
fn prints_what_is_free() {
    println!("\nfree: {}", free_bytes().iter().map(u64::to_string).collect::<Vec<_>>().join(" "));
}

#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn what_one_process_has_allocated_is_not_free_in_another() {
    let devices = devices();
    let before = free_bytes_elsewhere(None);
    let held = devices[0].queue().unwrap().zeros(NUM_BYTES as usize / 4, ElementType::F32).unwrap();
    let after = free_bytes_elsewhere(None);
    assert_eq!((before.len(), after.len()), (devices.len(), devices.len()));
    assert!(before[0] >= after[0] + NUM_BYTES, "{before:?} {after:?}");
    // A process may number them in another way.
    if env::var_os("CUDA_VISIBLE_DEVICES").is_none() && devices.len() > 1 {
        let other_way = free_bytes_elsewhere(Some("1,0"));
        assert_eq!(other_way.len(), 2);
        assert!(before[0] >= other_way[1] + NUM_BYTES, "{before:?} {other_way:?}");
        assert!(other_way[0] >= other_way[1] + NUM_BYTES / 2, "{other_way:?}");
    }
    drop(held);
}
