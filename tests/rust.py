"""A small cargo workspace, and the mark for tests that need the tools of Rust."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import write_files

SHAPES = """\
use std::fmt;

#[derive(Debug, Clone, PartialEq)]
pub enum Shape { Circle(f64), Rectangle { width: f64, height: f64 }, Polygon(Vec<(f64, f64)>) }

impl Shape {
    pub fn area(&self) -> f64 {
        match self {
            Shape::Circle(radius) => radius * radius * 3.14,
            Shape::Rectangle { width, height } => width * height,
            Shape::Polygon(points) => points.windows(2).map(|w| w[0].0 * w[1].1 - w[1].0 * w[0].1).sum::<f64>() / 2.0,
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { write!(f, "{:.2} {:?}", self.area(), self) }
}

pub fn parse(text: &str) -> Result<Shape, String> {
    let mut words = text.split_whitespace();
    let kind = words.next().ok_or("nothing")?;
    let numbers = words.map(|w| w.parse::<f64>().map_err(|e| e.to_string())).collect::<Result<Vec<_>, _>>()?;
    match (kind, numbers.as_slice()) {
        ("circle", [radius]) => Ok(Shape::Circle(*radius)),
        ("rectangle", [width, height]) => Ok(Shape::Rectangle { width: *width, height: *height }),
        ("polygon", rest) => Ok(Shape::Polygon(rest.chunks_exact(2).map(|c| (c[0], c[1])).collect())),
        _ => Err(format!("unknown {kind}")),
    }
}
"""

DRAW = """\
fn main() {
    for line in std::env::args().skip(1) {
        match shapes::parse(&line) { Ok(shape) => println!("{shape}"), Err(error) => println!("error: {error}") }
    }
    println!("{}", env!("MADE_BY_THE_BUILD_SCRIPT"));
}
"""

MACRO = """\
use proc_macro::TokenStream;
#[proc_macro]
pub fn nothing(_: TokenStream) -> TokenStream { TokenStream::new() }
"""

_PACKAGE = '[package]\nname = "{}"\nversion = "0.{}.0"\nedition = "2021"\n'


def _problem() -> str:
    missing = [name for name in ("cargo", "rustc", "cc") if shutil.which(name) is None]
    if missing:
        return f"needs {', '.join(missing)}"
    version = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"LLVM version: (\d+)", version)
    return "" if found and 17 <= int(found[1]) <= 22 else f"needs a rustc with LLVM 17 to 22, got {version[:40]!r}"


_why = _problem()
needs_rust = pytest.mark.skipif(bool(_why), reason=_why)


def write_workspace(folder: Path) -> Path:
    """Write a workspace with a library, a program with a build script, and a procedural macro; return its folder."""
    files = {
        "Cargo.toml": '[workspace]\nmembers = ["draw", "shapes", "macros"]\nresolver = "2"\n'
        '[profile.release]\nopt-level = "z"\ncodegen-units = 1\n',
        "shapes/Cargo.toml": _PACKAGE.format("shapes", 3),
        "shapes/src/lib.rs": SHAPES,
        "macros/Cargo.toml": _PACKAGE.format("macros", 1) + "[lib]\nproc-macro = true\n",
        "macros/src/lib.rs": MACRO,
        "draw/Cargo.toml": _PACKAGE.format("draw", 2)
        + '[dependencies]\nshapes = { path = "../shapes" }\nmacros = { path = "../macros" }\n',
        "draw/build.rs": 'fn main() { println!("cargo:rustc-env=MADE_BY_THE_BUILD_SCRIPT=made") }\n',
        "draw/src/main.rs": f"macros::nothing!();\n{DRAW}",
    }
    return write_files(folder, files)
