// The report's page (report.html), without its data: @REPORT@ stands for JSON.
#ifndef PHANTORA_TOOLS_OBSERVE_REPORT_TEMPLATE_H_
#define PHANTORA_TOOLS_OBSERVE_REPORT_TEMPLATE_H_

namespace phantora {

extern const char kReportTemplate[];

}  // namespace phantora

#endif  // PHANTORA_TOOLS_OBSERVE_REPORT_TEMPLATE_H_
