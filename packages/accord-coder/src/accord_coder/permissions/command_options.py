"""The options of well-known commands: the table that limits rules which end in a star.

No command is allowed by this table: rules allow commands (`rules`), and no mode does but
`bypassPermissions` (`decision`).

`KNOWN_COMMANDS` has the commands for which "always allow" offers such a rule, each with all the
options that the rule covers. The user is asked about an option that is not listed: it may write a
file, run a program, or read a file of settings.

`RISKY_OPTIONS` has the options of other programs, for rules that a person wrote (`find *`): a
command with one of them is covered only if the rule itself names it.
"""

from __future__ import annotations

from msgspec import Struct


class KnownCommand(Struct, frozen=True, kw_only=True):
    """A command, and the options that a suggested rule for it covers.

    `flags` are letters of options that take no value, `values` those that take one.
    `only_reads` is for commands that change nothing: they may name files that other commands may
    not.
    """

    words: tuple[str, ...]
    options: frozenset[str] = frozenset()
    flags: str = ""
    values: str = ""
    numbers: bool = False  # -5
    operands: bool = True
    only_reads: bool = True


class Risks(Struct, frozen=True, kw_only=True):
    """Options of a program that write, run or read settings; a shorter spelling counts, too.

    `letters` are those of short options, also in the middle of others (`-xec`). `words` are words
    that make the program something else: subcommands, or primaries of `find`.
    """

    options: frozenset[str] = frozenset()
    letters: str = ""
    words: frozenset[str] = frozenset()


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Options of git log, show and diff that only choose what is shown. Not here: --output (writes),
# --ext-diff and --textconv (run programs), --no-index (compares any files), -O and --orderfile
# (read a file), --show-signature and %G in --format (run gpg) stay out as well.
_GIT_SHOWN = _names("""
    --abbrev --abbrev-commit --all --author --author-date-order --after --before --branches
    --cached --cc --color --no-color --color-moved --color-words --committer --compact-summary
    --count --cumulative --date --date-order --decorate --no-decorate --diff-algorithm
    --diff-filter --dirstat --exit-code --find-copies --find-copies-harder --find-renames
    --first-parent --follow --format --full-history --full-index --function-context --graph --grep
    --all-match --histogram --ignore-all-space --ignore-blank-lines --ignore-cr-at-eol
    --ignore-space-at-eol --ignore-space-change --inter-hunk-context --invert-grep --left-right
    --max-count --merge-base --merges --minimal --name-only --name-status --no-merges --no-patch
    --no-renames --no-ext-diff --no-textconv --no-walk --not --numstat --oneline --parents
    --patch --patch-with-stat --patience --perl-regexp --pretty --quiet --raw --regexp-ignore-case
    --relative --relative-date --remotes --reverse --root --shortstat --simplify-by-decoration
    --since --skip --source --staged --stat --stat-width --summary --tags --text --topo-order
    --unified --until --word-diff --word-diff-regex
""")
_GIT_SHOWN_FLAGS = "abcimpqrstuwzERW"
_CARGO = _names("""
    --all --all-features --all-targets --bench --benches --bin --bins --doc --example --examples
    --exclude --features --frozen --jobs --keep-going --lib --locked --message-format
    --no-default-features --no-fail-fast --no-run --offline --package --profile --quiet --release
    --target --test --tests --verbose --workspace
""")
_GO = _names("""
    -a -bench -benchmem -benchtime -count -cover -covermode -coverpkg -cpu -failfast -fuzz -fuzztime
    -json -list -n -p -parallel -race -run -short -shuffle -skip -tags -timeout -trimpath -v -x
""")

KNOWN_COMMANDS: tuple[KnownCommand, ...] = (
    KnownCommand(
        words=("git", "status"),
        options=_names("""
            --short --branch --show-stash --porcelain --long --verbose --untracked-files
            --ignored --column --no-column --ahead-behind --no-ahead-behind --renames
            --no-renames --find-renames --ignore-submodules --null
        """),
        flags="sbvzu",
    ),
    KnownCommand(
        words=("git", "log"),
        options=_GIT_SHOWN,
        flags=_GIT_SHOWN_FLAGS,
        values="nLSGUMCB",
        numbers=True,
    ),
    KnownCommand(
        words=("git", "show"),
        options=_GIT_SHOWN,
        flags=_GIT_SHOWN_FLAGS,
        values="nLSGUMCB",
        numbers=True,
    ),
    KnownCommand(
        words=("git", "diff"),
        options=_GIT_SHOWN,
        flags=_GIT_SHOWN_FLAGS,
        values="SGUMCB",
        numbers=True,
    ),
    KnownCommand(
        words=("git", "shortlog"),
        options=_names("--numbered --summary --email --since --until --no-merges"),
        flags="nse",
    ),
    KnownCommand(
        words=("git", "blame"),
        options=_names("--porcelain --line-porcelain --date --show-name --show-number --root"),
        flags="wlstefnpc",
        values="LMC",
    ),
    KnownCommand(
        words=("git", "branch"),
        options=_names("""
            --list --all --remotes --show-current --verbose --color --no-color --column
            --merged --no-merged --contains --no-contains --points-at --sort --format
        """),
        flags="arv",
        operands=False,
    ),
    KnownCommand(
        words=("git", "tag"), options=_names("--list --sort --format"), flags="l", operands=False
    ),
    KnownCommand(words=("git", "remote"), options=_names("--verbose"), flags="v", operands=False),
    KnownCommand(words=("git", "stash", "list"), options=_names("--oneline"), operands=False),
    KnownCommand(
        words=("git", "stash", "show"), options=_names("--stat --patch --name-only"), flags="pu"
    ),
    KnownCommand(
        words=("git", "grep"),
        options=_names("""
            --ignore-case --word-regexp --line-number --column --count --files-with-matches
            --name-only --files-without-match --extended-regexp --fixed-strings --perl-regexp
            --context --before-context --after-context --show-function --cached --untracked
            --max-count --max-depth --heading --break --all-match --and --or --not --quiet --text
        """),
        flags="iwnclLEFGPIhHpqva",
        values="eABCm",
        numbers=True,
    ),
    KnownCommand(
        words=("git", "ls-files"),
        options=_names("""
            --cached --deleted --modified --others --ignored --stage --unmerged --killed
            --directory --exclude-standard --full-name --error-unmatch --eol
        """),
        flags="cdmoistukzv",
    ),
    KnownCommand(
        words=("git", "ls-tree"),
        options=_names("--name-only --name-status --long --full-name --full-tree"),
        flags="dlrtz",
    ),
    KnownCommand(
        words=("git", "rev-parse"),
        options=_names("""
            --abbrev-ref --short --verify --show-toplevel --git-dir --is-inside-work-tree
            --show-prefix --show-cdup --symbolic-full-name --all --branches --tags --remotes
            --quiet --absolute-git-dir --is-bare-repository --show-superproject-working-tree
        """),
        flags="q",
    ),
    KnownCommand(
        words=("git", "rev-list"),
        options=_names("--count --all --max-count --merges --no-merges --reverse --since --until"),
        values="n",
        numbers=True,
    ),
    KnownCommand(
        words=("git", "describe"),
        options=_names("--tags --always --dirty --all --long --abbrev --match --exact-match"),
    ),
    KnownCommand(words=("git", "merge-base"), options=_names("--all --is-ancestor --fork-point")),
    KnownCommand(
        words=("git", "add"),
        options=_names("--all --update --verbose --dry-run --intent-to-add --refresh"),
        flags="AuvnN",
        only_reads=False,
    ),
    KnownCommand(
        words=("git", "commit"),
        options=_names(
            "--message --all --amend --no-edit --signoff --quiet --dry-run --allow-empty"
        ),
        flags="asq",
        values="m",
        only_reads=False,
    ),
    KnownCommand(
        words=("cargo", "build"), options=_CARGO, flags="vqr", values="pjF", only_reads=False
    ),
    KnownCommand(
        words=("cargo", "check"), options=_CARGO, flags="vqr", values="pjF", only_reads=False
    ),
    KnownCommand(
        words=("cargo", "test"), options=_CARGO, flags="vqr", values="pjF", only_reads=False
    ),
    KnownCommand(
        words=("cargo", "clippy"), options=_CARGO, flags="vqr", values="pjF", only_reads=False
    ),
    KnownCommand(
        words=("cargo", "fmt"),
        options=_names("--all --check --package --verbose --quiet"),
        flags="vq",
        values="p",
        operands=False,
        only_reads=False,
    ),
    KnownCommand(
        words=("cargo", "tree"),
        options=_names("--workspace --package --invert --depth --edges --duplicates --features"),
        flags="d",
        values="pie",
    ),
    KnownCommand(words=("go", "build"), options=_GO, only_reads=False),
    KnownCommand(words=("go", "test"), options=_GO, only_reads=False),
    KnownCommand(words=("go", "vet"), options=_GO, only_reads=False),
    KnownCommand(words=("go", "list"), options=_GO | _names("-m -u -deps -test"), only_reads=True),
    KnownCommand(
        words=("npm", "ls"),
        options=_names("--all --depth --json --long --parseable --omit --include"),
        flags="al",
    ),
    KnownCommand(words=("npm", "outdated"), options=_names("--all --json --long"), flags="al"),
    KnownCommand(
        words=("pip", "list"),
        options=_names("--outdated --uptodate --editable --not-required --format"),
        flags="oue",
        operands=False,
    ),
    KnownCommand(words=("pip", "show"), options=_names("--files"), flags="f"),
    KnownCommand(words=("pip", "freeze"), options=_names("--all --local"), operands=False),
    KnownCommand(words=("uv", "pip", "list"), options=_names("--outdated --format")),
    KnownCommand(words=("uv", "pip", "show"), options=_names("--files")),
    KnownCommand(words=("uv", "tree"), options=_names("--depth --package --invert --outdated")),
    KnownCommand(
        words=("docker", "ps"),
        options=_names("--all --filter --format --last --latest --no-trunc --quiet --size"),
        flags="alqs",
        values="fn",
        operands=False,
    ),
    KnownCommand(
        words=("docker", "images"),
        options=_names("--all --digests --filter --format --no-trunc --quiet"),
        flags="aq",
        values="f",
    ),
    KnownCommand(
        words=("docker", "logs"),
        options=_names("--details --since --tail --timestamps --until"),
        flags="t",
        values="n",
    ),
    KnownCommand(
        words=("kubectl", "get"),
        options=_names("--all-namespaces --namespace --selector --show-labels --sort-by"),
        flags="A",
        values="nl",
    ),
    KnownCommand(
        words=("kubectl", "describe"),
        options=_names("--all-namespaces --namespace --selector"),
        flags="A",
        values="nl",
    ),
)

# Programs that change nothing, except with an option in `RISKY_OPTIONS`. A command of them may name
# a file that other commands may not.
READING_PROGRAMS = frozenset(
    """
    basename cat cmp comm cut df diff dirname du echo egrep fgrep file find grep head jq ls md5sum
    nl od pwd readlink realpath rg sha256sum sort stat tail tree wc which
    """.split()  # noqa: SIM905  # a list of words
)

# By the name of the program.
RISKY_OPTIONS: dict[str, Risks] = {
    "awk": Risks(
        options=_names(
            "--file --include --load --exec --in-place --pretty-print --profile --dump-variables"
            " --debug --source"
        ),
        letters="fileEopdDW",
    ),
    "ack": Risks(options=_names("--pager --ackrc --files-from")),
    "ag": Risks(options=_names("--pager --path-to-ignore"), letters="p"),
    "bat": Risks(options=_names("--pager --config-file --config-dir --cache-dir")),
    "cargo": Risks(options=_names("--config --manifest-path --target-dir --out-dir"), letters="ZC"),
    "curl": Risks(
        options=_names(
            "--output --remote-name --config --upload-file --dump-header --cookie-jar"
            " --trace --trace-ascii --trace-config --output-dir --libcurl --stderr --etag-save"
            " --remote-name-all --remote-header-name --write-out --hsts --alt-svc --engine"
        ),
        letters="oOJKTDcw",
    ),
    "docker": Risks(
        options=_names("--config --volume --mount --privileged --env-file --entrypoint --output"),
        letters="v",
    ),
    "fd": Risks(options=_names("--exec --exec-batch"), letters="xX"),
    "file": Risks(options=_names("--compile --magic-file"), letters="Cm"),
    "find": Risks(
        words=_names(
            "-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls -files0-from"
        )
    ),
    "git": Risks(
        options=_names("""
            --output --output-directory --ext-diff --textconv --no-index --exec --exec-path
            --upload-pack --receive-pack --config --config-env --open-files-in-pager --extcmd
            --edit --edit-description --editor --template --paginate --strategy --gpg-sign
            --show-signature --git-dir --work-tree --separate-git-dir --contents --orderfile
            --interactive --patch-editor --hooks --sign --server-option --tool --remote --file
        """),
        letters="cCoOxeSF",
        words=_names("""
            config bisect submodule filter-branch difftool mergetool daemon shell instaweb
            web--browse send-email credential hook upload-pack receive-pack remote-ext archive
            cvsserver svn p4 fast-import sparse-checkout worktree clone init maintenance help
        """),
    ),
    "go": Risks(
        words=_names("run generate install tool get env mod work"),
        options=_names("""
            -exec -toolexec -vettool -o -overlay -modfile -C -coverprofile -cpuprofile -memprofile
            -blockprofile -mutexprofile -trace -outputdir -ldflags -gcflags -asmflags -pgo -mod
            -compiler -gccgoflags -pkgdir -buildmode
        """),
    ),
    "grep": Risks(letters="f", options=_names("--file --exclude-from --include-from")),
    "jq": Risks(
        letters="fL", options=_names("--from-file --slurpfile --rawfile --argfile --library-path")
    ),
    "kubectl": Risks(
        options=_names("--kubeconfig --exec --filename --editor --cache-dir --profile-output"),
        letters="f",
        words=_names(
            "exec cp edit apply delete create patch replace run attach debug plugin proxy"
        ),
    ),
    "less": Risks(
        letters="oOkL",
        options=_names("""
            --log-file --LOG-FILE --lesskey-file --lesskey-src --lesskey-content --cmd
        """),
    ),
    "make": Risks(
        options=_names("--file --makefile --eval --directory --include-dir --old-file"),
        letters="fCIEo",
    ),
    "man": Risks(options=_names("--pager --html --config-file --preprocessor"), letters="PHCp"),
    "npm": Risks(
        options=_names("""
            --script-shell --prefix --userconfig --globalconfig --global --cache --node-options
            --git --editor --shell --call --viewer --ignore-scripts --init-module --location
        """),
        letters="Cgc",
        words=_names("config set exec x explore edit run-script start-script init create link"),
    ),
    "pip": Risks(
        options=_names("""
            --target --prefix --root --python --log --log-file --cache-dir --report --src --config
            --index-url --extra-index-url --find-links --editable --requirement --constraint
            --config-settings --global-option --build-option --trusted-host --cert --user
        """),
        letters="ticrefC",
        words=_names("config download wheel"),
    ),
    "rg": Risks(options=_names("--pre --hostname-bin --file --ignore-file"), letters="f"),
    "rsync": Risks(
        options=_names("""
            --rsh --rsync-path --log-file --write-batch --only-write-batch --password-file
            --files-from --temp-dir --backup-dir --daemon --config
        """),
        letters="eT",
    ),
    "scp": Risks(letters="FSoJ"),
    # Scripts in options, and numbers before them, are not told apart from files.
    "sed": Risks(
        options=_names("--in-place --file --expression --follow-symlinks --line-length"),
        letters="ifel",
    ),
    "split": Risks(options=_names("--filter")),
    "ssh": Risks(letters="oFEIJDLRwO"),
    "sort": Risks(
        options=_names("--output --compress-program --files0-from --temporary-directory"),
        letters="oT",
    ),
    "tar": Risks(
        options=_names("""
            --to-command --checkpoint-action --use-compress-program --info-script --rsh-command
            --new-volume-script --rmt-command --directory --absolute-names --files-from --extract
            --get --create --append --update --delete --remove-files --exclude-from --index-file
            --listed-incremental --volno-file --catenate --concatenate
        """),
        letters="xcruAICFTPKg",
    ),
    "time": Risks(options=_names("--output"), letters="o"),
    "tree": Risks(letters="oR", options=_names("--output --fromfile --infofile --gitfile")),
    "uv": Risks(options=_names("--config-file --directory --project --python --with-editable")),
    "wget": Risks(
        options=_names(
            "--output-document --output-file --append-output --execute --config"
            " --use-askpass --directory-prefix --post-file --body-file --input-file"
            " --save-cookies --hsts-file --warc-file --rejected-log"
        ),
        letters="OoaePi",
    ),
    "yarn": Risks(
        options=_names("--cwd --use-yarnrc --script-shell --modules-folder"),
        words=_names("config exec node dlx set plugin"),
    ),
    "zip": Risks(options=_names("--unzip-command --out --logfile-path --move"), letters="TOm"),
}
for _other, _program in (
    ("gawk", "awk"),
    ("mawk", "awk"),
    ("nawk", "awk"),
    ("batcat", "bat"),
    ("egrep", "grep"),
    ("fgrep", "grep"),
    ("gmake", "make"),
    ("gsed", "sed"),
    ("bsdtar", "tar"),
    ("pip3", "pip"),
    ("pnpm", "npm"),
    ("podman", "docker"),
):
    RISKY_OPTIONS[_other] = RISKY_OPTIONS[_program]
