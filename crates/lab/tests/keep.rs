//! local only
use groupcast_lab::papers::*;
#[test]
fn keep() {
    let Ok(ids) = std::env::var("ROWS") else {
        return;
    };
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(kept::FOLDER);
    std::env::set_current_dir(folder.join("../..")).unwrap();
    for id in ids.split(',').filter(|id| !id.is_empty()) {
        let row = row(id).unwrap();
        let it = reproduction(id).unwrap();
        let options = Options {
            host: it.hosts()[0],
            seeds: it.seeds(),
            quick: std::env::var("QUICK").is_ok(),
            jobs: 2,
            executable: "".into(),
            out: None,
        };
        let start = std::time::Instant::now();
        let data = it.run(&Context::new(&options, &|_, _| {})).unwrap();
        let record = Record::new(row, it, &options, record::commit(), data);
        println!("{id} {} in {:?}", record.status, start.elapsed());
        for check in &record.verdict.checks {
            println!("  {} {} -> {}", check.held, check.claim, check.measured);
        }
        for note in &record.verdict.notes {
            println!("  note {note}");
        }
        if !options.quick {
            record.keep(it, &folder).unwrap();
        } else if let Ok(dir) = std::env::var("QUICK") {
            record.write(it, std::path::Path::new(&dir)).unwrap();
        }
    }
    if std::env::var("INDEX").is_ok() {
        kept::judge_again(&folder).unwrap();
    }
}
