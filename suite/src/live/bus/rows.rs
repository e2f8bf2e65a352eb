//! Whether rows of messages can be parts of one order.

use std::collections::BTreeMap;

/// Whether there is an order of all numbers in which each row is, and none is in a row twice.
pub fn are_one_order(rows: &[Vec<usize>]) -> bool {
    // Which message comes directly before which in some row; an order is there if none comes before
    // itself.
    let mut after: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut before: BTreeMap<usize, usize> = BTreeMap::new();
    for row in rows {
        for number in row {
            before.entry(*number).or_default();
        }
        for pair in row.windows(2) {
            after.entry(pair[0]).or_default().push(pair[1]);
            *before.entry(pair[1]).or_default() += 1;
        }
    }
    let count = before.len();
    let free = before.iter().filter(|(_, count)| **count == 0);
    let mut free: Vec<usize> = free.map(|(number, _)| *number).collect();
    let mut ordered = 0;
    while let Some(number) = free.pop() {
        ordered += 1;
        for next in after.remove(&number).into_iter().flatten() {
            if let Some(count) = before.get_mut(&next) {
                *count -= 1;
                if *count == 0 {
                    free.push(next);
                }
            }
        }
    }
    ordered == count
}

#[cfg(test)]
mod tests {
    use super::are_one_order;

    #[test]
    fn rows_of_one_order_are_told_from_others() {
        assert!(are_one_order(&[]));
        assert!(are_one_order(&[
            vec![3, 1, 2],
            vec![3, 2],
            vec![5, 1],
            vec![]
        ]));
        assert!(!are_one_order(&[vec![1, 2], vec![2, 1]]));
        assert!(
            !are_one_order(&[vec![1, 2], vec![2, 3], vec![3, 1]]),
            "of three"
        );
        assert!(!are_one_order(&[vec![1, 2, 1]]), "twice");
        assert!(!are_one_order(&[vec![1, 1]]));
    }
}
