//! `groupcast bench ring` and `groupcast bench bus` measure what they say: all fields are there and
//! fit together.

use std::process::Command;

use groupcast_bench::Link;
use groupcast_suite::live::cluster::Cluster;
use groupcast_suite::live::{Outcome, skipped};
use serde_json::Value;

fn bench(arguments: &[&str]) -> Outcome<Value> {
    bench_of("ring", arguments)
}

fn bench_of(what: &str, arguments: &[&str]) -> Outcome<Value> {
    // A cluster of one host only finds the binary.
    let mut cluster = Cluster::new(1, Link::Unlimited)?;
    cluster.pass();
    let binary = cluster.binary();
    let output = Command::new(binary)
        .args(["bench", what, "--json", "--duration", "1"])
        .args(arguments)
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let line = String::from_utf8(output.stdout)?;
    Ok(serde_json::from_str(
        line.lines().last().unwrap_or_default(),
    )?)
}

fn number(report: &Value, pointer: &str) -> Outcome<f64> {
    report
        .pointer(pointer)
        .and_then(Value::as_f64)
        .ok_or_else(|| format!("no number at {pointer}: {report}").into())
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn at_full_speed_the_order_is_compared_and_the_ratio_is_one_of_the_figures() -> Outcome {
    if skipped() {
        return Ok(());
    }
    let report = bench(&["--hosts", "3"])?;
    println!("{report}");
    let (ring, raw) = (
        number(&report, "/mbps_slowest")?,
        number(&report, "/raw_mbps")?,
    );
    if ring < 10.0 || raw < 50.0 || (number(&report, "/ratio")? - ring / raw).abs() > 1e-6 {
        return Err(format!("implausible: {report}").into());
    }
    let per_message = number(&report, "/msgs_per_s")? * 1350.0 * 8.0 / 1e6;
    if (per_message / ring - 1.0).abs() > 0.05 || report["order_checked"] != true {
        return Err(format!("figures do not fit together: {report}").into());
    }
    Ok(())
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn at_a_rate_that_much_arrives_on_a_slow_wire_without_encryption() -> Outcome {
    if skipped() {
        return Ok(());
    }
    let report = bench(&[
        "--hosts",
        "3",
        "--rate",
        "5",
        "--link",
        "100mbit",
        "--encrypt",
        "off",
        "--size",
        "500",
        "--service",
        "safe",
    ])?;
    println!("{report}");
    if (number(&report, "/mbps_slowest")? - 5.0).abs() > 0.5 {
        return Err(format!("5 Mb/s were offered: {report}").into());
    }
    let (p50, p99) = (
        number(&report, "/latency_us/p50")?,
        number(&report, "/latency_us/p99")?,
    );
    if !(p50 > 10.0 && p50 <= p99) || number(&report, "/raw_mbps")? > 97.0 {
        return Err(format!("implausible: {report}").into());
    }
    if report["encrypt"] != false || report["link"] != "100mbit" || report["service"] != "safe" {
        return Err(format!("other conditions than asked for: {report}").into());
    }
    Ok(())
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn rmp_is_measured_beside_the_ring_run_by_run() -> Outcome {
    if skipped() {
        return Ok(());
    }
    let report = bench(&[
        "--hosts",
        "3",
        "--protocol",
        "rmp",
        "--beside",
        "ring",
        "--runs",
        "2",
        "--lone",
        "--rate",
        "1",
        "--mode",
        "library",
    ])?;
    println!("{report}");
    let ratio = number(&report, "/beside/latency_mean_ratio")?;
    let ours = number(&report, "/latency_us/mean")?;
    let theirs = number(&report, "/beside/report/latency_us/mean")?;
    if (ratio - ours / theirs).abs() > 1e-6 || report["protocol"] != "rmp" {
        return Err(format!("figures do not fit together: {report}").into());
    }
    let ring = &report["beside"]["report"];
    if ring["protocol"] != "accelerated" || ring["runs"].as_array().map(Vec::len) != Some(2) {
        return Err(format!("other conditions than asked for: {report}").into());
    }
    if (number(&report, "/mbps_slowest")? - 1.0).abs() > 0.1 || report["lone"] != true {
        return Err(format!("one host alone should send 1 Mb/s: {report}").into());
    }
    Ok(())
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn as_a_library_it_is_one_order_too_encrypted_or_not() -> Outcome {
    if skipped() {
        return Ok(());
    }
    for encrypt in ["on", "off"] {
        let report = bench(&["--hosts", "3", "--mode", "library", "--encrypt", encrypt])?;
        println!("{report}");
        if number(&report, "/mbps_slowest")? < 10.0 || report["order_checked"] != true {
            return Err(format!("implausible: {report}").into());
        }
        if report["mode"] != "library" || report["encrypt"] != (encrypt == "on") {
            return Err(format!("other conditions than asked for: {report}").into());
        }
    }
    let report = bench(&["--hosts", "3", "--mode", "library", "--rate", "5"])?;
    println!("{report}");
    if (number(&report, "/mbps_slowest")? - 5.0).abs() > 0.5 {
        return Err(format!("5 Mb/s were offered: {report}").into());
    }
    Ok(())
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn programs_at_the_bus_are_measured_beside_what_they_are_compared_with() -> Outcome {
    if skipped() {
        return Ok(());
    }
    for (arguments, via, syntax, beside) in [
        (&["--beside", "binary"][..], "bus", "raw", "binary"),
        (
            &["--syntax", "sexp-cstream", "--beside", "raw"],
            "bus",
            "sexp-cstream",
            "bus",
        ),
        (
            &["--patterns", "200", "--domains", "3", "--beside", "pattern"],
            "bus",
            "raw",
            "bus",
        ),
        (
            &["--single", "--clients", "5", "--beside", "distributed"],
            "single",
            "raw",
            "bus",
        ),
    ] {
        let report = bench_of(
            "bus",
            &[&["--size", "300", "--rate", "5"], arguments].concat(),
        )?;
        println!("{report}");
        let theirs = &report["beside"]["report"];
        if report["via"] != via || report["syntax"] != syntax || theirs["via"] != beside {
            return Err(format!("other conditions than asked for: {report}").into());
        }
        for report in [&report, theirs] {
            let mbps = number(report, "/mbps_slowest")?;
            // A list has another length when it is converted.
            if !(4.0..6.0).contains(&mbps) || report["order_checked"] != true {
                return Err(format!("5 Mb/s were offered: {report}").into());
            }
        }
        let (own, other) = (
            number(&report, "/msgs_per_s")?,
            number(theirs, "/msgs_per_s")?,
        );
        if (number(&report, "/beside/msgs_ratio")? - own / other).abs() > 1e-6 {
            return Err(format!("figures do not fit together: {report}").into());
        }
    }
    Ok(())
}
