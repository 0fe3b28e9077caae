"""What `spca-tv` takes: the commands, their options and their help.

Nothing here imports what does the work, so that help, completion and mistyped options need no wait. The
command itself is the function `run` of the module with its name.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TypeAlias

from spcatv._version import __version__
from spcatv.cli.arguments import add_argument, add_arguments, add_verbosity, argument_type
from spcatv.cli.option_table import BIDS, BIDS_FILTERS, HEADINGS, OPTIONS
from spcatv.cli.options import CommonOptions, FitOptions, SelectOptions
from spcatv.cli.suggestions import TABLE_AND_COLUMN, Parser

Subparsers: TypeAlias = "argparse._SubParsersAction[Parser]"

FIT_HELP = "find the components of images or of an array"
FIT_DESCRIPTION = """\
Find a few components of images (NIfTI, GIFTI, FreeSurfer, CIFTI-2) or of an array:
coherent regions that vary together. By default 70 % of the loadings of every component
are exactly zero: --sparsity sets this share, --smoothness how coherent the regions are.
Says which components are found again in random halves of the samples. Writes maps,
scores, figures of merit and the model into a folder."""
FIT_EXAMPLES = """\
examples:
  spca-tv fit 'maps/*.nii.gz' --output results
  spca-tv fit 'maps/*.nii.gz' --sparsity 0.9 --output results
  spca-tv fit 'maps/*.nii.gz' --n-components auto --output results
  spca-tv fit 'maps/*.nii.gz' --sparsity 0.7 0.8 0.9 --smoothness 0.5 --output results
  spca-tv fit participants.tsv --mask gm.nii.gz --confounds participants.tsv \\
      --confounds-columns age,sex --output results
  spca-tv fit --bids derivatives/vbm --space MNI152NLin2009cAsym --desc smoothwm \\
      --confounds-columns age,sex --output results
  spca-tv fit 'subjects/*/surf/?h.thickness.mgh' --surface lh.pial rh.pial --output results
  spca-tv fit --array X.npy --shape 100,100 --output results
  spca-tv fit 'maps/*.nii.gz' --alpha 0.2 --l1-ratio 0.25 --tv-ratio 0.5 --output results
  spca-tv fit --config results/desc-SPCATV_config.toml --output again
"""
SELECT_HELP = "choose the penalty by cross-validation, and measure stability"
SELECT_DESCRIPTION = """\
Choose sparsity and smoothness by cross-validation, fit all samples with them, and
resample to see which voxels would be found again. Writes what `fit` writes for the
chosen model, the table of settings, and stability maps. Every fold removes confounds
and scales features with its own training samples."""
SELECT_EXAMPLES = """\
examples:
  spca-tv select 'maps/*.nii.gz' --output results --n-jobs -1
  spca-tv select 'maps/*.nii.gz' --sparsity 0.7 0.8 0.9 --smoothness 1 --output results
  spca-tv select 'maps/*.nii.gz' --rule stability --output results
  spca-tv select participants.tsv --mask gm.nii.gz --groups subject --output results
  spca-tv select --array X.npy --shape 100,100 --alpha grid --rule paper --output results
  spca-tv select 'maps/*.nii.gz' --scheduler tcp://host:8786 --output results
"""
REPORT_EXAMPLES = """\
examples:
  spca-tv report results
  spca-tv report results --groups participants.tsv diagnosis --variable participants.tsv age
  spca-tv report results --atlas aal.nii.gz --atlas-names aal.tsv --title 'Grey matter' --open
"""
COMPLETION_EXAMPLES = """\
in bash, now and in every new shell:
  source <(spca-tv completion bash)
  echo 'source <(spca-tv completion bash)' >> ~/.bashrc
in zsh, into a folder of $fpath:
  spca-tv completion zsh > ~/.zfunc/_spca-tv
in fish:
  spca-tv completion fish > ~/.config/fish/completions/spca-tv.fish
"""
SHELLS = ("bash", "zsh", "fish")


def build_parser() -> Parser:
    """The parser of the whole command line; `command` is the name of the command that is asked for."""
    parser = Parser(
        prog="spca-tv",
        description="Structured sparse PCA: components made of a few coherent regions, with a certificate.",
    )
    parser.add_argument("--version", action="version", version=f"spca-tv {__version__}")
    parser.set_defaults(debug=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    for subparser in (
        _add_samples_command(commands, FitOptions, FIT_HELP, FIT_DESCRIPTION, FIT_EXAMPLES),
        _add_samples_command(commands, SelectOptions, SELECT_HELP, SELECT_DESCRIPTION, SELECT_EXAMPLES),
        *(add_command(commands) for add_command in (_add_transform, _add_report, _add_info, _add_demo)),
    ):
        subparser.add_argument("--debug", action="store_true", help="on failure, show the traceback as well")
    _add_completion(commands)
    for each in (parser, *commands.choices.values()):
        each.commands = commands.choices
    return parser


def _add_samples_command(
    commands: Subparsers, kind: type[CommonOptions], help: str, description: str, epilog: str
) -> Parser:
    """Declare a command that reads samples and writes a results folder, with all its options."""
    parser = commands.add_parser(
        kind.command,
        help=help,
        usage=f"spca-tv {kind.command} IMAGES... --output DIR [options]",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,  # a later option must not make a script ambiguous
    )
    parser.add_argument(
        "images",
        nargs="*",
        metavar="IMAGES",
        help="files, folders, patterns in quotes, text files of paths (.txt, one per line), or tables (.tsv, "
        ".csv) with a column of paths",
    )
    run_options = add_arguments(parser, kind)
    run_options.add_argument(
        "--config", type=Path, metavar="FILE", help="TOML file that holds any of these options"
    )
    add_verbosity(run_options)
    return parser


def _add_transform(commands: Subparsers) -> Parser:
    parser = commands.add_parser(
        "transform",
        help="scores of new images on the components of a model",
        description=(
            "Write the scores of images on the components of a model, one row per sample. The images are "
            "treated as those of the fit were: the same mask, confounds and scale."
        ),
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="folder that `spca-tv fit` has written")
    parser.add_argument("images", nargs="*", metavar="IMAGES", help="as for `spca-tv fit`")
    parser.add_argument(
        "--array", type=Path, metavar="FILE", help="instead of images: an array, one sample per row"
    )
    parser.add_argument("--path-column", metavar="NAME", help="column of a table that holds the paths")
    parser.add_argument(
        "--confounds", type=Path, metavar="TSV", help="table of the confounds that the model was fitted with"
    )
    parser.add_argument(
        "--confounds-columns",
        type=argument_type(OPTIONS["confounds_columns"].kind),
        metavar="NAME,...",
        help="columns of --confounds to use (default: those that the model was fitted with)",
    )
    parser.add_argument(
        "--exclude",
        nargs="+",
        default=(),
        metavar="NAME",
        help="images to leave out: files, with or without their folder and ending, or participants (sub-07)",
    )
    parser.add_argument(
        "--cache", type=Path, metavar="DIR", help="folder that keeps what was read, as for `spca-tv fit`"
    )
    parser.add_argument(
        "--memory",
        type=argument_type(OPTIONS["memory"].kind),
        metavar="SIZE",
        help="memory that the images may take, such as 4GB; more are read in parts, one after the other",
    )
    parser.add_argument("--output", type=Path, required=True, metavar="TSV", help="file for the scores")
    parser.add_argument("--bids", type=Path, metavar="DIR", help="instead of images: a BIDS dataset")
    filters = parser.add_argument_group(HEADINGS[BIDS])
    for name, option in BIDS_FILTERS.items():
        add_argument(filters, name, option)
    parser.add_argument("--overwrite", action="store_true", help="replace the file if it exists")
    add_verbosity(parser)
    return parser


def _add_report(commands: Subparsers) -> Parser:
    parser = commands.add_parser(
        "report",
        help="make a page about a model: maps, regions, scores, certificates",
        description=(
            "Write one HTML file about a model: what was run, interactive maps and regions of every "
            "component, scores, explained variance, certificates, and selection and stability where the "
            "folder has them. The file needs no network."
        ),
        epilog=REPORT_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "model", type=Path, metavar="MODEL", help="folder that `spca-tv fit` or `spca-tv select` has written"
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="the page (default: desc-SPCATV_report.html among the results, or MODEL_report.html beside a "
        "model)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the file if it exists")
    parser.add_argument("--title", metavar="TEXT", help="heading of the page")
    parser.add_argument(
        "--groups", nargs=2, metavar=TABLE_AND_COLUMN, help="labels of the samples, which colour the scores"
    )
    parser.add_argument(
        "--variable", nargs=2, metavar=TABLE_AND_COLUMN, help="numbers to draw the scores against"
    )
    parser.add_argument(
        "--atlas",
        nargs="+",
        type=Path,
        metavar="ATLAS",
        help="label images that name regions: NIfTI for voxels; GIFTI or .annot for surfaces, left, right; "
        "or the name of an atlas on this machine (of nilearn, FSL or FreeSurfer), such as aparc",
    )
    parser.add_argument(
        "--atlas-names", type=Path, metavar="FILE", help="labels of the atlas: table, or XML of FSL"
    )
    parser.add_argument(
        "--background",
        metavar="FILE",
        help="picture behind volumes: an image, 'template' (MNI152) or 'mean' (default: the template if the "
        "mask lies in its brain)",
    )
    parser.add_argument("--open", action="store_true", help="show the page in the web browser")
    parser.add_argument("--quiet", action="store_true", help="print nothing when all goes well")
    return parser


def _add_info(commands: Subparsers) -> Parser:
    parser = commands.add_parser(
        "info",
        help="show what a model folder holds",
        description=(
            "Check a model folder (versions, SHA-256, shapes, finite values) and show its parameters, what "
            "it was fitted to, and the certificate of every component."
        ),
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="folder that `spca-tv fit` has written")
    parser.add_argument("--json", action="store_true", help="print everything but the arrays as JSON")
    return parser


def _add_demo(commands: Subparsers) -> Parser:
    parser = commands.add_parser(
        "demo",
        help="see the method at work on simulated images and cohorts",
        description=(
            "Three parts, each with a table and a picture. dots: the images of the paper; PCA, elastic-net "
            "PCA and SPCA-TV are compared on held-out images and with the truth. volume, surface: simulated "
            "cohorts on the grey matter of the MNI152 template and on the cortex of fsaverage5, written as "
            "NIfTI and GIFTI files, fitted with `spca-tv fit`, read again, and shown by `spca-tv report`. "
            "Nothing is downloaded."
        ),
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("demo-output"),
        metavar="DIR",
        help="folder for pictures, tables and files, made if needed (default: ./demo-output)",
    )
    parser.add_argument(
        "--seed",
        type=_seed,
        default=0,
        metavar="N",
        help="seed of the simulated data, an integer >= 0 (default: 0)",
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=("dots", "volume", "surface"),
        metavar="PART",
        help="run this part only: dots, volume or surface (may be given several times)",
    )
    parser.add_argument("--open", action="store_true", help="show the reports in the browser at the end")
    parser.add_argument("--quiet", action="store_true", help="print nothing when all goes well")
    return parser


def _add_completion(commands: Subparsers) -> Parser:
    parser = commands.add_parser(
        "completion",
        help="print a script with which a shell completes commands and options",
        description="Print a script that lets a shell complete commands, options and their values.",
        epilog=COMPLETION_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell")
    return parser


def _seed(text: str) -> int:
    try:
        seed = int(text)
    except ValueError:
        seed = -1
    if seed < 0:
        raise argparse.ArgumentTypeError(f"a seed is an integer >= 0, got {text!r}")
    return seed
