//! "Did you mean": the known word that is spelled most like an unknown one.

/// The candidate with the smallest edit distance (insert, delete, replace, swap of neighbours), the first of equals. A
/// candidate that has all the words of an unknown one, as `warmup_num_steps` has those of `warmup_steps`, counts as
/// one edit. `None` where the nearest differs in more than a third of its letters, since such a guess would not help.
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // No key is longer than this, and a distance costs the product of both lengths.
    const LONGEST: usize = 64;
    let word = word.to_lowercase();
    if word.len() > LONGEST {
        return None;
    }
    let distance = |candidate: &str| {
        let candidate = candidate.to_lowercase();
        match () {
            () if candidate == word => 0,
            () if has_words_of(&candidate, &word) => 1,
            () => strsim::osa_distance(&word, &candidate),
        }
    };
    candidates
        .map(|candidate| (distance(candidate), candidate))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, candidate)| *distance <= candidate.len().max(3) / 3)
        .map(|(_, candidate)| candidate)
}

/// Whether a name is a known one with other capitals or hyphens, or with one letter missing, added, changed or swapped.
pub fn is_slip(name: &str, known: &str) -> bool {
    let plain = name.to_lowercase().replace('-', "_");
    plain == known || (known.len() > 3 && strsim::osa_distance(&plain, known) == 1)
}

/// Whether every word of `word`, between underscores, begins one of `candidate`'s. Short words would fit anywhere.
fn has_words_of(candidate: &str, word: &str) -> bool {
    let begins = |part: &str| candidate.split('_').any(|whole| whole.starts_with(part));
    word.split('_').all(|part| part.len() >= 3 && begins(part))
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn near_misspellings_find_the_word_and_far_ones_find_none() {
        let words = ["pipeline", "partition", "data", "lr", "warmup_type", "warmup_num_steps"];
        let nearest = |word: &str| nearest(word, words.into_iter());
        assert_eq!(nearest("pipelines"), Some("pipeline"));
        assert_eq!(nearest("pipeilne"), Some("pipeline"));
        assert_eq!(nearest("PARTITION"), Some("partition"));
        assert_eq!(nearest("date"), Some("data"));
        assert_eq!(nearest("rl"), Some("lr"));
        assert_eq!(nearest("part"), Some("partition"));
        assert_eq!(nearest("warmup_steps"), Some("warmup_num_steps"));
        assert_eq!(nearest("tensor"), None);
        let long = "pipeline".repeat(100);
        assert_eq!(nearest(&long), None);
        assert_eq!(nearest(""), None);
    }
}
