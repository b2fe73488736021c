"""The files that always require permission: secrets, and guarded files.

Guarded files are those that programs run or read automatically: the user is asked before they are
changed. An editor that opens the folder, a shell that starts, a login, a push, another agent: each
reads such files. `acceptEdits` does not cover them. Files that run only as part of a command of the
project (Makefile, package.json, conftest.py) are not listed: the user is asked about the command.

A row of the table names a file (`.bashrc`, `*.pth`), a directory with its contents (`.zed/`), or
the end of a path (`.config/fish/`, `.cargo/config.toml`). Rows and the compared paths are in lower
case.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from pathlib import PurePath

from accord_coder.wildcards import MAX_CHARACTERS, Wildcards, path_pattern, text_pattern

# pattern: the program, and the page or manual that says when it reads the file
GUARDED: dict[str, str] = {
    # Accord
    ".accord/": "accord agent: docs/reference/coder-permissions.md",
    # Version control
    ".git/": "git: gitrepository-layout(5), githooks(5)",
    ".git": "git: gitrepository-layout(5), a file that names another directory",
    ".gitattributes": "git: gitattributes(5), filters and merge drivers",
    ".gitconfig": "git: git-config(1)",
    ".config/git/": "git: git-config(1)",
    ".gitmodules": "git: gitmodules(5)",
    ".githooks/": "git: the usual value of core.hooksPath, githooks(5)",
    ".hg/": "Mercurial: hgrc(5), hooks",
    ".hgrc": "Mercurial: hgrc(5)",
    ".hgsub": "Mercurial: hg help subrepos",
    ".svn/": "Subversion: svnbook.red-bean.com, working copy administration area",
    ".subversion/": "Subversion: svnbook.red-bean.com, runtime configuration area",
    ".bzr/": "Bazaar: doc.bazaar.canonical.com, configuration",
    ".jj/": "Jujutsu: docs.jj-vcs.dev/latest/config",
    ".fossil-settings/": "Fossil: fossil-scm.org/home/doc/trunk/www/settings.wiki",
    # Hooks
    ".husky/": "husky: typicode.github.io/husky",
    ".huskyrc*": "husky: typicode.github.io/husky",
    ".pre-commit-config.yaml": "pre-commit: pre-commit.com",
    ".pre-commit-hooks.yaml": "pre-commit: pre-commit.com",
    "prek.toml": "prek: prek.j178.dev",
    "lefthook.y*ml": "lefthook: lefthook.dev/configuration",
    ".lefthook.y*ml": "lefthook: lefthook.dev/configuration",
    "lefthook-local.y*ml": "lefthook: lefthook.dev/configuration",
    ".lefthook/": "lefthook: lefthook.dev/configuration",
    ".overcommit.yml": "overcommit: github.com/sds/overcommit",
    ".git-hooks/": "overcommit: github.com/sds/overcommit",
    ".simple-git-hooks*": "simple-git-hooks: github.com/toplenboren/simple-git-hooks",
    "simple-git-hooks*": "simple-git-hooks: github.com/toplenboren/simple-git-hooks",
    ".lintstagedrc*": "lint-staged: github.com/lint-staged/lint-staged",
    "lint-staged.config.*": "lint-staged: github.com/lint-staged/lint-staged",
    # Editors
    ".vscode/": "Visual Studio Code: code.visualstudio.com/docs/editor/tasks",
    "*.code-workspace": "Visual Studio Code: code.visualstudio.com/docs/editor/workspaces",
    ".vscode-insiders/": "Visual Studio Code: code.visualstudio.com/docs/editor/workspaces",
    ".zed/": "Zed: zed.dev/docs/tasks",
    ".config/zed/": "Zed: zed.dev/docs/configuring-zed",
    ".idea/": "JetBrains: www.jetbrains.com/help/idea/run-debug-configuration.html",
    ".run/": "JetBrains: www.jetbrains.com/help/idea/run-debug-configuration.html",
    "*.iml": "JetBrains: www.jetbrains.com/help/idea/creating-and-managing-modules.html",
    "*.ipr": "JetBrains: www.jetbrains.com/help/idea/creating-and-managing-projects.html",
    "*.iws": "JetBrains: www.jetbrains.com/help/idea/creating-and-managing-projects.html",
    ".ideavimrc": "IdeaVim: github.com/JetBrains/ideavim",
    ".fleet/": "JetBrains Fleet: www.jetbrains.com/help/fleet/run-configurations.html",
    ".vs/": "Visual Studio: learn.microsoft.com/visualstudio/ide/customize-build-and-debug-tasks",
    "*.csproj.user": "MSBuild: learn.microsoft.com/visualstudio/msbuild/customize-your-build",
    ".settings/": "Eclipse: help.eclipse.org, project preferences",
    ".project": "Eclipse: help.eclipse.org, project description file (builders)",
    ".classpath": "Eclipse: help.eclipse.org, build classpath",
    ".externaltoolbuilders/": "Eclipse: help.eclipse.org, external tool builders",
    "*.launch": "Eclipse: help.eclipse.org, launch configurations",
    ".nova/": "Nova: docs.nova.app, tasks",
    "*.sublime-project": "Sublime Text: www.sublimetext.com/docs/projects.html (build systems)",
    "*.sublime-build": "Sublime Text: www.sublimetext.com/docs/build_systems.html",
    "*.sublime-settings": "Sublime Text: www.sublimetext.com/docs/settings.html",
    ".theia/": "Theia: theia-ide.org/docs",
    ".dir-locals.el": "Emacs: manual, Directory Variables",
    ".dir-locals-2.el": "Emacs: manual, Directory Variables",
    ".emacs": "Emacs: manual, The Emacs Initialization File",
    ".emacs.el": "Emacs: manual, The Emacs Initialization File",
    ".emacs.d/": "Emacs: manual, The Emacs Initialization File",
    ".config/emacs/": "Emacs: manual, The Emacs Initialization File",
    ".doom.d/": "Doom Emacs: github.com/doomemacs/doomemacs",
    ".spacemacs": "Spacemacs: www.spacemacs.org/doc",
    ".exrc": "vi, Vim, Neovim: vimhelp.org, 'exrc'",
    ".vimrc": "Vim: vimhelp.org, vimrc",
    "_vimrc": "Vim: vimhelp.org, vimrc",
    ".gvimrc": "Vim: vimhelp.org, gvimrc",
    "_gvimrc": "Vim: vimhelp.org, gvimrc",
    ".vim/": "Vim: vimhelp.org, 'runtimepath'",
    "vimfiles/": "Vim: vimhelp.org, 'runtimepath'",
    ".lvimrc": "vim-localvimrc: github.com/embear/vim-localvimrc",
    ".vimspector.json": "vimspector: github.com/puremourning/vimspector",
    ".nvim.lua": "Neovim: neovim.io/doc, 'exrc'",
    ".nvimrc": "Neovim: neovim.io/doc, 'exrc'",
    ".nvim/": "Neovim: neovim.io/doc, project settings of plugins",
    ".config/nvim/": "Neovim: neovim.io/doc, init.lua",
    ".neoconf.json": "neoconf.nvim: github.com/folke/neoconf.nvim",
    ".lazy.lua": "lazy.nvim: lazy.folke.io, local spec",
    ".helix/": "Helix: docs.helix-editor.com/languages.html",
    ".config/helix/": "Helix: docs.helix-editor.com/configuration.html",
    ".kakrc": "Kakoune: github.com/mawww/kakoune",
    ".config/kak/": "Kakoune: github.com/mawww/kakoune",
    ".config/micro/": "micro: micro-editor.github.io, init.lua",
    ".nanorc": "nano: nanorc(5), spellers and formatters",
    ".atom/": "Atom: flight-manual.atom-editor.cc, init script",
    ".config/code/": "Visual Studio Code: code.visualstudio.com/docs/getstarted/settings",
    ".ycm_extra_conf.py": "YouCompleteMe: github.com/ycm-core/YouCompleteMe",
    ".clangd": "clangd: clangd.llvm.org/config (the compiler that is asked)",
    ".config/clangd/": "clangd: clangd.llvm.org/config",
    "compile_commands.json": "clangd: clangd.llvm.org/design/compile-commands",
    ".ccls": "ccls: github.com/MaskRay/ccls/wiki",
    ".solargraph.yml": "Solargraph: solargraph.org/guides/configuration (plugins)",
    ".eslintrc*": "ESLint in editors: eslint.org/docs/latest/use/configure",
    "eslint.config.*": "ESLint in editors: eslint.org/docs/latest/use/configure",
    ".prettierrc*": "Prettier in editors: prettier.io/docs/configuration (plugins)",
    "prettier.config.*": "Prettier in editors: prettier.io/docs/configuration",
    ".stylelintrc*": "Stylelint in editors: stylelint.io/user-guide/configure",
    "stylelint.config.*": "Stylelint in editors: stylelint.io/user-guide/configure",
    ".pylintrc": "Pylint in editors: pylint.readthedocs.io (init-hook, load-plugins)",
    "pylintrc": "Pylint in editors: pylint.readthedocs.io (init-hook, load-plugins)",
    ".rubocop.yml": "RuboCop in editors: docs.rubocop.org (require)",
    # Development containers and environments
    ".devcontainer/": "Dev Containers: containers.dev/implementors/json_reference",
    ".devcontainer.json": "Dev Containers: containers.dev/implementors/json_reference",
    "devcontainer.json": "Dev Containers: containers.dev/implementors/json_reference",
    ".gitpod.y*ml": "Gitpod: www.gitpod.io/docs (tasks)",
    ".gitpod/": "Gitpod: www.gitpod.io/docs (tasks)",
    ".ona/": "Ona: ona.com/docs",
    ".devfile.yaml": "devfile: devfile.io/docs (events)",
    "devfile.yaml": "devfile: devfile.io/docs (events)",
    ".replit": "Replit: docs.replit.com",
    "replit.nix": "Replit: docs.replit.com",
    ".idx/": "Firebase Studio: firebase.google.com/docs/studio (onCreate)",
    ".codesandbox/": "CodeSandbox: codesandbox.io/docs (tasks)",
    ".stackblitzrc": "StackBlitz: developer.stackblitz.com (startCommand)",
    # Other agents
    "agents.md": "coding agents: agents.md",
    "agents.override.md": "Codex: developers.openai.com/codex",
    "agent.md": "coding agents: agents.md, its older name",
    "claude.md": "Claude Code: docs.claude.com/en/docs/claude-code/memory",
    "claude.local.md": "Claude Code: docs.claude.com/en/docs/claude-code/memory",
    ".claude/": "Claude Code: docs.claude.com/en/docs/claude-code/settings (hooks)",
    ".claude.json": "Claude Code: docs.claude.com/en/docs/claude-code/settings",
    ".claude-plugin/": "Claude Code: docs.claude.com/en/docs/claude-code/plugins",
    ".mcp.json": "MCP clients: modelcontextprotocol.io, Claude Code and others",
    "mcp.json": "MCP clients: modelcontextprotocol.io",
    "mcp_config.json": "Windsurf: docs.windsurf.com",
    "claude_desktop_config.json": "Claude Desktop: modelcontextprotocol.io/quickstart/user",
    ".cursor/": "Cursor: docs.cursor.com (mcp.json, rules, hooks)",
    ".cursorrules": "Cursor: docs.cursor.com",
    ".windsurf/": "Windsurf: docs.windsurf.com",
    ".windsurfrules": "Windsurf: docs.windsurf.com",
    ".codeium/": "Windsurf: docs.windsurf.com",
    ".clinerules*": "Cline: docs.cline.bot",
    ".clinerules/": "Cline: docs.cline.bot",
    ".roo/": "Roo Code: docs.roocode.com",
    ".roomodes": "Roo Code: docs.roocode.com",
    ".roorules*": "Roo Code: docs.roocode.com",
    ".kilocode/": "Kilo Code: kilocode.ai/docs",
    ".aider*": "aider: aider.chat/docs/config (test-cmd, lint-cmd)",
    ".continue/": "Continue: docs.continue.dev",
    ".continuerc.json": "Continue: docs.continue.dev",
    ".gemini/": "Gemini CLI: geminicli.com/docs",
    "gemini.md": "Gemini CLI: geminicli.com/docs",
    ".qwen/": "Qwen Code: github.com/QwenLM/qwen-code",
    "qwen.md": "Qwen Code: github.com/QwenLM/qwen-code",
    ".codex/": "Codex: developers.openai.com/codex",
    ".opencode/": "opencode: opencode.ai/docs",
    "opencode.json*": "opencode: opencode.ai/docs",
    ".crush.json": "Crush: github.com/charmbracelet/crush",
    "crush.json": "Crush: github.com/charmbracelet/crush",
    "crush.md": "Crush: github.com/charmbracelet/crush",
    ".goosehints": "goose: block.github.io/goose",
    ".goose/": "goose: block.github.io/goose",
    ".config/goose/": "goose: block.github.io/goose",
    ".openhands/": "OpenHands: docs.all-hands.dev (setup.sh)",
    ".kiro/": "Kiro: kiro.dev/docs (hooks)",
    ".amazonq/": "Amazon Q: docs.aws.amazon.com/amazonq",
    ".junie/": "Junie: www.jetbrains.com/help/junie",
    ".aiassistant/": "JetBrains AI Assistant: www.jetbrains.com/help/ai-assistant",
    ".trae/": "Trae: docs.trae.ai",
    ".augment/": "Augment: docs.augmentcode.com",
    ".augment-guidelines": "Augment: docs.augmentcode.com",
    ".factory/": "Factory: docs.factory.ai",
    ".amp/": "Amp: ampcode.com/manual",
    ".rules": "Zed: zed.dev/docs/ai/rules",
    ".agents/": "coding agents: agentskills.io",
    ".agent/": "Antigravity: antigravity.google/docs",
    ".skills/": "coding agents: agentskills.io",
    "skill.md": "coding agents: agentskills.io",
    ".github/copilot-instructions.md": "GitHub Copilot: docs.github.com/copilot",
    ".github/instructions/": "GitHub Copilot: docs.github.com/copilot",
    ".github/prompts/": "GitHub Copilot: docs.github.com/copilot",
    ".github/chatmodes/": "GitHub Copilot: docs.github.com/copilot",
    ".github/agents/": "GitHub Copilot: docs.github.com/copilot",
    ".github/skills/": "GitHub Copilot: docs.github.com/copilot",
    ".copilot/": "GitHub Copilot CLI: docs.github.com/copilot",
    # Continuous integration and deployment
    ".github/workflows/": "GitHub Actions: docs.github.com/actions",
    ".github/actions/": "GitHub Actions: docs.github.com/actions",
    ".github/hooks/": "GitHub Copilot: docs.github.com/copilot",
    ".github/dependabot.y*ml": "Dependabot: docs.github.com/code-security/dependabot",
    ".github/codeowners": "GitHub: docs.github.com, about code owners",
    "action.y*ml": "GitHub Actions: docs.github.com/actions (composite actions)",
    ".gitlab-ci.y*ml": "GitLab: docs.gitlab.com/ci/yaml",
    ".gitlab/": "GitLab: docs.gitlab.com/ci",
    ".gitea/": "Gitea Actions: docs.gitea.com/usage/actions",
    ".forgejo/": "Forgejo Actions: forgejo.org/docs/latest/user/actions",
    ".circleci/": "CircleCI: circleci.com/docs/configuration-reference",
    ".travis.yml": "Travis CI: docs.travis-ci.com",
    "appveyor.yml": "AppVeyor: www.appveyor.com/docs/appveyor-yml",
    ".appveyor.yml": "AppVeyor: www.appveyor.com/docs/appveyor-yml",
    "azure-pipelines*.y*ml": "Azure Pipelines: learn.microsoft.com/azure/devops/pipelines",
    ".azure-pipelines/": "Azure Pipelines: learn.microsoft.com/azure/devops/pipelines",
    "jenkinsfile*": "Jenkins: www.jenkins.io/doc/book/pipeline/jenkinsfile",
    "bitbucket-pipelines.yml": "Bitbucket Pipelines: support.atlassian.com/bitbucket-cloud",
    ".drone.y*ml": "Drone: docs.drone.io",
    ".woodpecker.y*ml": "Woodpecker: woodpecker-ci.org/docs",
    ".woodpecker/": "Woodpecker: woodpecker-ci.org/docs",
    ".buildkite/": "Buildkite: buildkite.com/docs/pipelines",
    ".cirrus.y*ml": "Cirrus CI: cirrus-ci.org/guide/writing-tasks",
    ".semaphore/": "Semaphore: docs.semaphoreci.com",
    ".teamcity/": "TeamCity: www.jetbrains.com/help/teamcity/kotlin-dsl.html",
    ".builds/": "builds.sr.ht: man.sr.ht/builds.sr.ht",
    ".build.yml": "builds.sr.ht: man.sr.ht/builds.sr.ht",
    ".tekton/": "Pipelines as Code: pipelinesascode.com",
    ".harness/": "Harness: developer.harness.io",
    ".concourse/": "Concourse: concourse-ci.org",
    "cloudbuild.y*ml": "Cloud Build: cloud.google.com/build/docs",
    "buildspec.y*ml": "AWS CodeBuild: docs.aws.amazon.com/codebuild",
    "appspec.y*ml": "AWS CodeDeploy: docs.aws.amazon.com/codedeploy",
    "amplify.yml": "AWS Amplify: docs.aws.amazon.com/amplify",
    "netlify.toml": "Netlify: docs.netlify.com/configure-builds",
    "vercel.json": "Vercel: vercel.com/docs/project-configuration",
    "render.yaml": "Render: render.com/docs/blueprint-spec",
    "fly.toml": "Fly.io: fly.io/docs/reference/configuration",
    ".readthedocs.y*ml": "Read the Docs: docs.readthedocs.io/config-file",
    "renovate.json*": "Renovate: docs.renovatebot.com",
    ".renovaterc*": "Renovate: docs.renovatebot.com",
    ".mergify.yml": "Mergify: docs.mergify.com",
    ".mergify/": "Mergify: docs.mergify.com",
    # Shells
    ".bashrc": "bash: bash(1), INVOCATION",
    ".bash_profile": "bash: bash(1), INVOCATION",
    ".bash_login": "bash: bash(1), INVOCATION",
    ".bash_logout": "bash: bash(1), INVOCATION",
    ".bash_aliases": "bash: the .bashrc of Debian and others",
    ".bashrc.d/": "bash: the .bashrc of Fedora and others",
    ".bash_completion": "bash-completion: github.com/scop/bash-completion",
    ".profile": "sh: sh(1), bash(1)",
    ".shrc": "sh: sh(1) of FreeBSD",
    ".shinit": "sh: ENV in sh(1)",
    ".zshrc": "zsh: zsh(1), STARTUP/SHUTDOWN FILES",
    ".zshenv": "zsh: zsh(1), STARTUP/SHUTDOWN FILES",
    ".zprofile": "zsh: zsh(1), STARTUP/SHUTDOWN FILES",
    ".zlogin": "zsh: zsh(1), STARTUP/SHUTDOWN FILES",
    ".zlogout": "zsh: zsh(1), STARTUP/SHUTDOWN FILES",
    ".oh-my-zsh/": "Oh My Zsh: github.com/ohmyzsh/ohmyzsh",
    ".p10k.zsh": "Powerlevel10k: github.com/romkatv/powerlevel10k",
    ".kshrc": "ksh: ksh(1)",
    ".mkshrc": "mksh: mksh(1)",
    ".cshrc": "csh: csh(1)",
    ".tcshrc": "tcsh: tcsh(1)",
    ".login": "csh: csh(1)",
    ".logout": "csh: csh(1)",
    ".config/fish/": "fish: fishshell.com/docs/current",
    ".config/nushell/": "Nushell: www.nushell.sh/book/configuration.html",
    ".config/elvish/": "Elvish: elv.sh/ref/command.html",
    ".config/powershell/": "PowerShell: learn.microsoft.com, about_Profiles",
    "profile.ps1": "PowerShell: learn.microsoft.com, about_Profiles",
    "*_profile.ps1": "PowerShell: learn.microsoft.com, about_Profiles",
    ".xonshrc": "xonsh: xon.sh/xonshrc.html",
    ".config/xonsh/": "xonsh: xon.sh/xonshrc.html",
    ".inputrc": "readline: readline(3), key bindings that type commands",
    ".editrc": "editline: editrc(5)",
    ".config/starship.toml": "starship: starship.rs/config (custom commands)",
    ".screenrc": "screen: screen(1)",
    ".tmux.conf": "tmux: tmux(1)",
    ".config/tmux/": "tmux: tmux(1)",
    ".config/zellij/": "Zellij: zellij.dev/documentation",
    ".wezterm.lua": "WezTerm: wezterm.org/config",
    ".config/wezterm/": "WezTerm: wezterm.org/config",
    ".config/kitty/": "kitty: sw.kovidgoyal.net/kitty/conf",
    ".config/ghostty/": "Ghostty: ghostty.org/docs/config",
    ".config/alacritty/": "Alacritty: alacritty.org/config-alacritty.html",
    # Directories that shells enter, versions of tools
    ".envrc": "direnv: direnv.net/man/direnv.1.html",
    ".direnvrc": "direnv: direnv.net/man/direnv-stdlib.1.html",
    ".direnv/": "direnv: direnv.net",
    ".config/direnv/": "direnv: direnv.net/man/direnv.toml.1.html",
    ".autoenv": "zsh-autoenv: github.com/Tarrasch/zsh-autoenv",
    ".autoenv.zsh": "zsh-autoenv: github.com/Tarrasch/zsh-autoenv",
    "mise*.toml": "mise: mise.jdx.dev/configuration.html (hooks, env)",
    ".mise*.toml": "mise: mise.jdx.dev/configuration.html",
    ".mise/": "mise: mise.jdx.dev/configuration.html",
    "mise/config.toml": "mise: mise.jdx.dev/configuration.html",
    ".config/mise/": "mise: mise.jdx.dev/configuration.html",
    ".rtx.toml": "mise: its older name",
    ".tool-versions": "asdf: asdf-vm.com/manage/configuration.html",
    ".asdfrc": "asdf: asdf-vm.com/manage/configuration.html (hooks)",
    ".rvmrc": "RVM: rvm.io/workflow/rvmrc",
    ".sdkmanrc": "SDKMAN!: sdkman.io/usage",
    ".prototools": "proto: moonrepo.dev/docs/proto",
    "devenv.nix": "devenv: devenv.sh (enterShell)",
    "devenv.yaml": "devenv: devenv.sh",
    "shell.nix": "nix-shell, nix-direnv: nix.dev (shellHook)",
    "flake.nix": "nix, nix-direnv: nix.dev (nixConfig, shellHook)",
    ".flox/": "Flox: flox.dev/docs (hook)",
    "devbox.json": "Devbox: www.jetify.com/docs/devbox (init_hook)",
    # Starting with the desktop or the machine
    ".config/autostart/": "desktops: specifications.freedesktop.org/autostart-spec",
    ".config/systemd/": "systemd: systemd.unit(5)",
    ".local/share/systemd/": "systemd: systemd.unit(5)",
    ".local/share/applications/": "desktops: specifications.freedesktop.org/desktop-entry-spec",
    ".local/share/dbus-1/": "D-Bus: dbus-daemon(1), activation",
    ".local/bin/": "shells: systemd file-hierarchy(7), part of PATH",
    ".config/environment.d/": "systemd: environment.d(5)",
    ".pam_environment": "PAM: pam_env(8)",
    ".xprofile": "display managers: Xsession",
    ".xinitrc": "xinit: xinit(1)",
    ".xsession": "display managers: Xsession(5)",
    ".xsessionrc": "display managers: Xsession(5)",
    ".xserverrc": "xinit: xinit(1)",
    ".config/i3/": "i3: i3wm.org/docs/userguide.html (exec)",
    ".config/sway/": "sway: sway(5) (exec)",
    ".config/hypr/": "Hyprland: wiki.hypr.land (exec-once)",
    "launchagents/": "launchd: launchd.plist(5)",
    "launchdaemons/": "launchd: launchd.plist(5)",
    "start menu/programs/startup/": "Windows: learn.microsoft.com, startup folder",
    "crontab": "cron: crontab(5)",
    ".crontab": "cron: crontab(5)",
    "cron.d/": "cron: cron(8)",
    # Package managers and build tools, which read settings whatever they are told to do
    ".npmrc": "npm: docs.npmjs.com/cli/configuring-npm/npmrc (script-shell, node-options)",
    ".yarnrc": "Yarn: classic.yarnpkg.com/docs/yarnrc (yarn-path)",
    ".yarnrc.yml": "Yarn: yarnpkg.com/configuration/yarnrc (yarnPath, plugins)",
    ".yarn/": "Yarn: yarnpkg.com, releases and plugins",
    ".pnp.cjs": "Yarn: yarnpkg.com/features/pnp",
    ".pnp.loader.mjs": "Yarn: yarnpkg.com/features/pnp",
    ".pnpmfile.?js": "pnpm: pnpm.io/pnpmfile",
    "pnpmfile.js": "pnpm: pnpm.io/pnpmfile",
    "bunfig.toml": "Bun: bun.sh/docs/runtime/bunfig (preload)",
    "node.config.json": "Node: nodejs.org/api/cli.html (--import)",
    "pip.conf": "pip: pip.pypa.io/en/stable/topics/configuration",
    "pip.ini": "pip: pip.pypa.io/en/stable/topics/configuration",
    ".config/pip/": "pip: pip.pypa.io/en/stable/topics/configuration",
    "uv.toml": "uv: docs.astral.sh/uv/reference/settings (index)",
    ".pypirc": "twine: packaging.python.org/specifications/pypirc",
    ".pydistutils.cfg": "setuptools: docs.python.org/3.11/install",
    ".condarc": "conda: docs.conda.io (channels)",
    "sitecustomize.py": "Python: docs.python.org/3/library/site.html",
    "usercustomize.py": "Python: docs.python.org/3/library/site.html",
    "*.pth": "Python: docs.python.org/3/library/site.html",
    "pyvenv.cfg": "Python: docs.python.org/3/library/venv.html (home)",
    ".pythonrc*": "Python: the usual value of PYTHONSTARTUP",
    ".pdbrc": "pdb: docs.python.org/3/library/pdb.html",
    ".ipython/": "IPython: ipython.readthedocs.io, startup files",
    ".jupyter/": "Jupyter: docs.jupyter.org, jupyter_server_config.py",
    ".cargo/config.toml": "Cargo: doc.rust-lang.org/cargo/reference/config.html (runner, rustc)",
    ".cargo/config": "Cargo: doc.rust-lang.org/cargo/reference/config.html",
    "rust-toolchain": "rustup: rust-lang.github.io/rustup/overrides.html (path)",
    "rust-toolchain.toml": "rustup: rust-lang.github.io/rustup/overrides.html (path)",
    ".m2/": "Maven: maven.apache.org/settings.html",
    ".mvn/": "Maven: maven.apache.org/configure.html (extensions, jvm.config)",
    "mvnw": "Maven: maven.apache.org/wrapper",
    "mvnw.cmd": "Maven: maven.apache.org/wrapper",
    ".mavenrc": "Maven: maven.apache.org/configure.html",
    "gradlew": "Gradle: docs.gradle.org, the wrapper",
    "gradlew.bat": "Gradle: docs.gradle.org, the wrapper",
    "gradle/wrapper/": "Gradle: docs.gradle.org, the wrapper (distributionUrl)",
    ".gradle/": "Gradle: docs.gradle.org, initialization scripts",
    "init.gradle*": "Gradle: docs.gradle.org, initialization scripts",
    "gradle.properties": "Gradle: docs.gradle.org, build environment (org.gradle.jvmargs)",
    ".sbtopts": "sbt: www.scala-sbt.org",
    ".jvmopts": "sbt: www.scala-sbt.org (-javaagent)",
    ".sbt/": "sbt: www.scala-sbt.org, global settings",
    ".bazelrc": "Bazel: bazel.build/run/bazelrc",
    ".bazeliskrc": "Bazelisk: github.com/bazelbuild/bazelisk",
    "user.bazelrc": "Bazel: bazel.build/run/bazelrc",
    "tools/bazel": "Bazel: bazel.build, the wrapper",
    ".buckconfig*": "Buck2: buck2.build/docs",
    ".bundle/": "Bundler: bundler.io/man/bundle-config.1.html",
    ".gemrc": "RubyGems: guides.rubygems.org",
    ".irbrc": "irb: docs.ruby-lang.org",
    ".pryrc": "pry: pry.github.io",
    ".rspec": "RSpec: rspec.info (--require)",
    ".ghci": "GHCi: downloads.haskell.org/ghc",
    ".rprofile": "R: ?Startup",
    ".renviron": "R: ?Startup",
    ".julia/config/": "Julia: docs.julialang.org (startup.jl)",
    ".octaverc": "Octave: docs.octave.org, startup files",
    ".sqliterc": "sqlite3: sqlite.org/cli.html",
    ".psqlrc": "psql: postgresql.org/docs/current/app-psql.html",
    ".my.cnf": "mysql: dev.mysql.com/doc (pager)",
    ".mongorc.js": "mongo: mongodb.com/docs",
    ".mongoshrc.js": "mongosh: mongodb.com/docs",
    "nuget.config": "NuGet: learn.microsoft.com/nuget/reference/nuget-config-file",
    "directory.build.props": "MSBuild: learn.microsoft.com/visualstudio/msbuild",
    "directory.build.targets": "MSBuild: learn.microsoft.com/visualstudio/msbuild",
    "directory.build.rsp": "MSBuild: learn.microsoft.com/visualstudio/msbuild, response files",
    ".config/dotnet-tools.json": ".NET: learn.microsoft.com/dotnet/core/tools",
    "go.work": "Go: go.dev/ref/mod (replaces modules for all commands)",
    ".config/go/": "Go: go.dev/ref/mod (go env -w)",
    ".terraformrc": "Terraform: developer.hashicorp.com/terraform/cli/config",
    "terraform.rc": "Terraform: developer.hashicorp.com/terraform/cli/config",
    ".ansible.cfg": "Ansible: docs.ansible.com, ansible.cfg",
    "ansible.cfg": "Ansible: docs.ansible.com, ansible.cfg",
    ".vagrant.d/": "Vagrant: developer.hashicorp.com/vagrant",
    ".docker/": "Docker: docs.docker.com, credential helpers and plugins",
    ".kube/": "kubectl: kubernetes.io/docs, exec plugins",
    # Debuggers and other programs with start files
    ".gdbinit": "GDB: sourceware.org/gdb, startup",
    ".gdbearlyinit": "GDB: sourceware.org/gdb, startup",
    ".config/gdb/": "GDB: sourceware.org/gdb, startup",
    ".lldbinit": "LLDB: lldb.llvm.org/man/lldb.html",
    ".curlrc": "curl: curl(1)",
    ".wgetrc": "wget: wget(1)",
    ".mailcap": "mailcap: mailcap(5)",
    ".lessfilter": "lesspipe: lesspipe(1)",
    ".lesskey": "less: lesskey(1)",
    ".ssh/": "OpenSSH: ssh_config(5) (ProxyCommand), sshd(8) (rc)",
    ".gnupg/": "GnuPG: gpg.conf",
    ".watchmanconfig": "Watchman: facebook.github.io/watchman",
    ".config/gh/": "GitHub CLI: cli.github.com/manual (aliases, extensions)",
    ".local/share/gh/": "GitHub CLI: cli.github.com/manual (extensions)",
    ".config/mc/": "Midnight Commander: mc(1)",
    ".config/mpv/": "mpv: mpv.io/manual (scripts)",
    ".mozilla/": "Firefox: support.mozilla.org, user.js",
    ".config/accord/": "accord: docs/reference/coder-sessions.md",
}


# Names of files, in lower case.
_SECRET_NAMES = (
    ".env",
    ".env.*",
    "*.env",
    ".envrc",
    "*.pem",
    "*.key",
    "*.p8",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdb",
    "*.kdbx",
    "*.ppk",
    "*.asc",
    "*.gpg",
    "*.age",
    "*.ovpn",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".gemrc",
    ".pgpass",
    ".my.cnf",
    ".htpasswd",
    ".git-credentials",
    ".vault-token",
    ".dockercfg",
    ".terraformrc",
    "*.tfstate",
    "*.tfstate.backup",
    "*.tfvars",
    "credentials",
    "credentials.*",
    "*_credentials.json",
    "*-credentials.json",
    "client_secret*.json",
    "service-account*.json",
    "service_account*.json",
    "secret",
    "secrets",
    "secret.*",
    "secrets.*",
    ".secrets",
    "auth.json",
    "shadow",
    "gshadow",
    ".bash_history",
    ".zsh_history",
    ".python_history",
)
# Names of code and templates, which contain no secrets.
_NOT_SECRET_NAMES = (
    "*.example",
    "*.sample",
    "*.template",
    "*.dist",
    "*.pub",
    "secret.py",
    "secrets.py",
    "secret.md",
    "secrets.md",
    "credentials.py",
    "credentials.md",
)
# Directories in which all files are secrets.
_SECRET_FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".password-store", "keyrings"})
# The end of a path.
_SECRET_PATHS = (
    (".git", "config"),
    (".kube", "config"),
    (".docker", "config.json"),
    (".config", "gh", "hosts.yml"),
    (".cargo", "credentials"),
    (".cargo", "credentials.toml"),
    ("accord", "keys.json"),
)
_SECRET_WITHIN = ((".config", "gcloud"),)

_MAX_ENTRIES = 20_000  # of a directory that is searched

_PATTERN = re.compile(r"[*?\[]")


class _Names:
    """Patterns of names with at most one star, which match fast: commands can be long."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._whole = frozenset(pattern for pattern in patterns if "*" not in pattern)
        split = [pattern.split("*") for pattern in patterns if "*" in pattern]
        self._ends = tuple(end for start, end in split if not start)
        self._starts = tuple(start for start, end in split if not end)
        self._both = [(start, end) for start, end in split if start and end]

    def has(self, name: str) -> bool:
        return (
            name in self._whole
            or name.endswith(self._ends)
            or name.startswith(self._starts)
            or any(
                len(name) >= len(start) + len(end) and name.startswith(start) and name.endswith(end)
                for start, end in self._both
            )
        )


@cache
def _secret_names() -> _Names:
    return _Names(_SECRET_NAMES)


@cache
def _not_secret_names() -> _Names:
    return _Names(_NOT_SECRET_NAMES)


class _GuardedTable:
    """The rows of the table, by how they are compared."""

    def __init__(self, rows: Iterable[str]) -> None:
        self.folders: set[str] = set()
        self.names: set[str] = set()
        self.patterns: dict[str, list[Wildcards]] = {}  # by the first character of the name
        self.ends: dict[str, list[tuple[str, ...]]] = {}  # by their last part
        self.runs: dict[str, list[tuple[str, ...]]] = {}  # directories, by their first part
        for row in rows:
            parts = tuple(row.rstrip("/").split("/"))
            if row.endswith("/"):
                if len(parts) == 1:
                    self.folders.add(parts[0])
                else:
                    self.runs.setdefault(parts[0], []).append(parts)
            elif _PATTERN.search(parts[-1]):
                pattern = path_pattern("**/" + "/".join(parts))
                self.patterns.setdefault(parts[-1][0], []).append(pattern)
            elif len(parts) == 1:
                self.names.add(row)
            else:
                self.ends.setdefault(parts[-1], []).append(parts)

    def has(self, parts: tuple[str, ...]) -> bool:
        """Return whether a path in lower case is in the table."""
        if parts[-1] in self.names or not self.folders.isdisjoint(parts):
            return True
        if any(parts[-len(end) :] == end for end in self.ends.get(parts[-1], ())):
            return True
        for at, part in enumerate(parts):
            if any(parts[at : at + len(run)] == run for run in self.runs.get(part, ())):
                return True
        path = "/".join(parts[-3:])
        patterns = (*self.patterns.get(parts[-1][0], ()), *self.patterns.get("*", ()))
        return any(pattern.matches(path) for pattern in patterns)


@cache
def _guarded_files() -> _GuardedTable:
    return _GuardedTable(GUARDED)


def _parts_of(path: str) -> tuple[str, ...]:
    """Return the parts of a path as the least strict file systems compare them."""
    return tuple(map(_folded, PurePath(path).parts))


def _folded(part: str) -> str:
    if part.isascii():
        part = part.lower()
    else:
        # macOS compares like this, and older versions ignored these characters.
        part = unicodedata.normalize("NFC", part.translate(_IGNORED)).casefold()
    # Windows drops these suffixes.
    return part.partition("::$")[0].rstrip(". ") or part


_IGNORED = dict.fromkeys(
    (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF)
)


def is_secret(path: str) -> bool:
    """Return whether a file may contain secrets, judged by its path."""
    parts = _parts_of(path)
    if not parts:
        return False
    if _SECRET_FOLDERS.intersection(parts):
        return not parts[-1].endswith(".pub")
    if any(parts[-len(end) :] == end for end in _SECRET_PATHS):
        return True
    if any(_holds(parts, folders) for folders in _SECRET_WITHIN):
        return True
    name = parts[-1]
    return _secret_names().has(name) and not _not_secret_names().has(name)


def is_guarded(path: str) -> bool:
    """Return whether a program runs or obeys a file automatically, judged by its path."""
    parts = _parts_of(path)
    return bool(parts) and _guarded_files().has(parts)


def sensitive_below(
    folder: str, *, target: str | None = None, max_entries: int = _MAX_ENTRIES
) -> str | None:
    """Return the first sensitive file in a directory; None if it contains none.

    With a `target`, files that become sensitive when the directory is moved there count, too.

    A directory that cannot be searched completely counts as sensitive. Links are not followed; a
    path that is not a directory contains nothing. Blocks.
    """
    if os.path.islink(folder) or not os.path.isdir(folder):  # noqa: PTH112, PTH114  # a text
        return None
    waiting, seen = [folder], 0
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as entries:
                for entry in entries:
                    seen += 1
                    if seen > max_entries:
                        return "too many files to check"
                    if is_secret(entry.path) or is_guarded(entry.path):
                        return os.path.relpath(entry.path, folder)
                    moved = None if target is None else target + entry.path[len(folder) :]
                    if moved is not None and (is_secret(moved) or is_guarded(moved)):
                        return os.path.relpath(entry.path, folder)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            return "a directory that cannot be read"
    return None


def matches_secret(word: str) -> bool:
    """Return whether a word of a command has a wildcard that matches usual names of secrets."""
    name = word.rpartition("/")[2].lower()
    # A lone * is too common; the pattern must contain a part of a secret's name.
    if len(name) > MAX_CHARACTERS or not _PATTERN.search(name) or not name.strip("*?"):
        return False
    pattern = text_pattern(name)
    return any(pattern.matches(sample) for sample in _SAMPLES)


_SAMPLES = (".env", ".env.local", "id_rsa", "id_ed25519", ".netrc", ".npmrc", "credentials")


def _holds(parts: tuple[str, ...], run: tuple[str, ...]) -> bool:
    return any(parts[at : at + len(run)] == run for at in range(len(parts)))
