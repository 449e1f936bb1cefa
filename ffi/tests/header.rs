//! `include/nanocm.h` is what cbindgen makes of this crate. `UPDATE=1` writes it.

#[test]
fn the_header_is_up_to_date() {
    let folder = env!("CARGO_MANIFEST_DIR");
    let config = cbindgen::Config::from_root_or_default(folder);
    let bindings =
        cbindgen::generate_with_config(folder, config).expect("cbindgen reads the crate");
    let mut text = Vec::new();
    bindings.write(&mut text);
    let path = format!("{folder}/include/nanocm.h");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &text).expect("include/ can be written");
    }
    let there = std::fs::read(&path).unwrap_or_default();
    assert!(there == text, "include/nanocm.h is out of date: run with UPDATE=1");
}
