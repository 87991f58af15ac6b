//! Whether a key is one of run files, with or without an effect.

use super::aliases;
use super::keys;
use super::raw::RawRun;
use super::section::Section;

/// Whether a run file may have this key.
pub(super) fn is_known(path: &str) -> bool {
    let (section, name) = path.rsplit_once('.').unwrap_or(("", path));
    let spec = RawRun::spec();
    let has_effect = spec
        .all()
        .iter()
        .any(|of| of.path == path || (of.path == section && of.keys.iter().any(|key| key.name == name)));
    has_effect
        || aliases::is_second_name(section, name)
        || keys::foreign(section).iter().any(|key| key.name == name)
        || keys::inner(section).is_some_and(|names| names.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::is_known;

    #[test]
    fn keys_with_and_without_an_effect_are_known() {
        for known in [
            "steps",
            "zero_optimization",
            "zero_optimization.stage",
            "optimizer.params.lr",
            "bfloat16",
            "wandb",
            "zero_optimization.offload_param",
        ] {
            assert!(is_known(known), "{known}");
        }
        for unknown in ["stepps", "zero_optimizatio", "zero_optimization.stag", "stage", "optimizer.params.x"]
        {
            assert!(!is_known(unknown), "{unknown}");
        }
    }
}
