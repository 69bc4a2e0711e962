"""Write a report as JUnit XML: a failed test per finding, a skipped one per suppression."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from patchkit.audit.report import Finding, Report


def document(report: Report) -> str:
    """Return the XML document."""
    cases = len(report.findings) + len(report.suppressed)
    suite = ElementTree.Element(
        "testsuite",
        name="patchkit audit",
        tests=str(max(cases, 1)),
        failures=str(len(report.findings)),
        errors="0",
        skipped=str(len(report.suppressed)),
        time=f"{report.seconds:.3f}",
    )
    for finding in report.findings:
        failure = ElementTree.SubElement(
            _case(suite, finding), "failure", type=finding.confidence.value, message=finding.message
        )
        steps = [f"{step.file}:{step.line}: {step.text}" for step in finding.path]
        failure.text = "\n".join([finding.expression, *steps, finding.guard])
    for entry in report.suppressed:
        ElementTree.SubElement(_case(suite, entry.finding), "skipped", message=entry.reason)
    if not cases:
        ElementTree.SubElement(
            suite, "testcase", classname="patchkit.audit", name=f"{report.files_scanned} files"
        )
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def _case(suite: ElementTree.Element, finding: Finding) -> ElementTree.Element:
    name = f"{finding.rule} {finding.function} line {finding.line}"
    return ElementTree.SubElement(suite, "testcase", classname=finding.file, name=name)
