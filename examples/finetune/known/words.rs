use std::collections::HashMap;
use std::io::{self, BufRead};

/// Counts how often each word occurs in the input.
fn count<R: BufRead>(reader: R) -> io::Result<HashMap<String, usize>> {
    let mut counts = HashMap::new();
    for line in reader.lines() {
        for word in line?.split_whitespace() {
            *counts.entry(word.to_lowercase()).or_insert(0) += 1;
        }
    }
    Ok(counts)
}

fn main() -> io::Result<()> {
    let stdin = io::stdin();
    let mut found: Vec<_> = count(stdin.lock())?.into_iter().collect();
    found.sort_by(|a, b| b.1.cmp(&a.1));
    for (word, times) in found.iter().take(10) {
        println!("{times:>6}  {word}");
    }
    Ok(())
}
