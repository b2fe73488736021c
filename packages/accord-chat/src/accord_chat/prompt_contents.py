"""What is sent for a prompt: its text, the files that it mentions, and its images."""

from __future__ import annotations

from collections.abc import Callable

from accord.client.connect import ConnectedAgent
from accord.types.content import ContentBlock, ResourceLink
from accord_chat.model.attachments import image_content
from accord_chat.model.folder_files import FolderFiles
from accord_chat.model.mentions import mentions
from accord_chat.model.prompt_queue import QueuedPrompt
from accord_terminal.toolkit.session_setup import EXTENSIONS, attached_content


def prompt_contents(
    agent: ConnectedAgent, prompt: QueuedPrompt, files: FolderFiles, warn: Callable[[str], None]
) -> list[ContentBlock]:
    """Return the contents of a prompt; `warn` gets what cannot be sent as it is."""
    found = [files.find(path) for path in mentions(prompt.text)]
    paths = list(dict.fromkeys(path for path in found if path is not None))
    mentioned = list(attached_content(agent, paths))
    takes_images = agent.supports_content("image")
    images, remarks = image_content(prompt.images, takes_images=takes_images)
    why = "it is too large" if takes_images else "the agent takes no images"
    remarks += [
        f"{content.name} was sent as a link: {why}"
        for content in mentioned
        if isinstance(content, ResourceLink) and content.mime_type in EXTENSIONS
    ]
    for remark in remarks:
        warn(remark)
    text: list[ContentBlock] = [prompt.text] if prompt.text or not images else []
    return [*text, *mentioned, *images]
