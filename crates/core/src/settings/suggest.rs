//! "Did you mean": the nearest of the words that would have been right.
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// The word of `words` nearest to `wrong`, if one is near enough to be what was meant.
pub fn nearest<'a>(wrong: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |word: &str| word.to_lowercase().replace(['-', ' '], "_");
    let wrong = plain(wrong);
    words
        .into_iter()
        .map(|word| (distance(&wrong, &plain(word)), word))
        .filter(|(distance, word)| {
            *distance <= word.chars().count().min(wrong.chars().count()).div_ceil(3)
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// `` did you mean `X`? `` if one is near, else all the words.
pub fn did_you_mean(wrong: &str, words: &[&str]) -> String {
    match nearest(wrong, words.iter().copied()) {
        Some(word) => format!("did you mean `{word}`?"),
        None => format!("use {}", alternatives(words)),
    }
}

/// `` `a`, `b` or `c` ``
pub fn alternatives(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        None => "nothing".into(),
        Some((only, [])) => only.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
    }
}

/// How many letters must be changed, added, dropped or swapped with their neighbour to make `a`
/// into `b`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = changed.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_changed_added_dropped_and_swapped_count_one_each() {
        for (a, b, expected) in [
            ("", "", 0),
            ("branching", "banching", 1),
            ("delay", "dealy", 1),
            ("rate", "rates", 1),
            ("ring", "rung", 1),
            ("kitten", "sitting", 3),
            ("", "abc", 3),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn what_is_far_from_everything_is_not_guessed() {
        let words = ["bandwidth", "delay", "queue"];
        assert_eq!(nearest("bandwith", words), Some("bandwidth"));
        assert_eq!(nearest("Delay", words), Some("delay"));
        assert_eq!(nearest("colour", words), None);
        assert_eq!(
            did_you_mean("colour", &words),
            "use `bandwidth`, `delay` or `queue`"
        );
    }
}
