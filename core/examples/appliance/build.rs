//! Tells the linker about the board's memory.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=memory.x");
    if env::var_os("CARGO_FEATURE_LM3S6965EVB").is_some() {
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where"));
        fs::copy("memory.x", out.join("memory.x")).expect("memory.x can be copied");
        println!("cargo:rustc-link-search={}", out.display());
        println!("cargo:rustc-link-arg-bins=-Tlink.x");
        println!("cargo:rustc-link-arg-bins=--nmagic");
        if env::var_os("CARGO_FEATURE_DEFMT").is_some() {
            println!("cargo:rustc-link-arg-bins=-Tdefmt.x");
        }
    }
}
